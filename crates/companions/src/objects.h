/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Objects by handle. A handle is a kind, a generation and a place in a table, far outside of any address
 * space: it is looked up and never dereferenced, and one that was destroyed never comes back to life.
 */
#ifndef FERRY_OBJECTS_H
#define FERRY_OBJECTS_H

#include <pthread.h>
#include <stdlib.h>

#include "boundary.h"

/* Other numbers than those of libascendcl.so's handles. */
enum kind { TENSOR_DESC = 8, DATA_BUFFER = 9, ATTRIBUTES = 10 };

/* What is known of an object: of buffers and attributes only that they exist, since nobody asks for more. */
struct object {
    uintptr_t handle; /* 0 if there is none in this place */
    uintptr_t generation;
    size_t next_free;
    aclDataType data_type;
    aclFormat format;
    int num_dims;
    int64_t *dims;
};

enum { INDEX_BITS = 24, GENERATION_BITS = 28 };
#define NOWHERE SIZE_MAX

static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;
static size_t objects_count, objects_room, objects_free = NOWHERE;

static void give_back(void)
{
    pthread_mutex_unlock(&objects_lock);
}

static void wait_for_objects(void)
{
    pthread_mutex_lock(&objects_lock);
}

/* A child has no thread that could give the lock back: whoever forks holds it meanwhile. */
__attribute__((constructor)) static void survive_forks(void)
{
    pthread_atfork(wait_for_objects, give_back, give_back);
}

/* A place that is free, or NOWHERE. With the lock. */
static size_t free_place(void)
{
    size_t at = objects_free;
    if (at != NOWHERE) {
        objects_free = objects[at].next_free;
        return at;
    }
    if (objects_count == objects_room) {
        size_t room = objects_room == 0 ? 64 : 2 * objects_room;
        struct object *more = room > (size_t)1 << INDEX_BITS ? NULL : realloc(objects, room * sizeof *more);
        if (more == NULL) {
            return NOWHERE;
        }
        objects = more, objects_room = room;
    }
    memset(&objects[objects_count], 0, sizeof *objects);
    return objects_count++;
}

/* Keeps a copy of an object and gives its handle, or NULL where there is no memory. */
static void *add_object(enum kind kind, struct object object)
{
    uintptr_t handle = 0;
    size_t at;
    pthread_mutex_lock(&objects_lock);
    at = free_place();
    if (at != NOWHERE) {
        object.generation = objects[at].generation + 1;
        handle = (uintptr_t)0x46 << 56 | (uintptr_t)kind << (INDEX_BITS + GENERATION_BITS) |
                 object.generation << INDEX_BITS | at;
        object.handle = handle;
        objects[at] = object;
    }
    pthread_mutex_unlock(&objects_lock);
    return (void *)handle;
}

/* The object of a handle and a kind, or NULL. With the lock, and valid as long as it is held. */
static struct object *find_object(enum kind kind, const void *handle)
{
    uintptr_t number = (uintptr_t)handle, at = number & (((uintptr_t)1 << INDEX_BITS) - 1);
    uintptr_t tag = (uintptr_t)0x46 << 56 | (uintptr_t)kind << (INDEX_BITS + GENERATION_BITS);
    int is_kind = number >> (INDEX_BITS + GENERATION_BITS) == tag >> (INDEX_BITS + GENERATION_BITS);
    return is_kind && at < objects_count && objects[at].handle == number ? &objects[at] : NULL;
}

/* Looks an object up for a call of `function`, which refuses an unknown one; success keeps the lock. */
static aclError take_object(const char *function, enum kind kind, const void *handle, struct object **object)
{
    static const char *const words[] = {"tensor descriptor", "data buffer", "list of attributes"};
    pthread_mutex_lock(&objects_lock);
    *object = find_object(kind, handle);
    if (*object != NULL) {
        return ACL_SUCCESS;
    }
    pthread_mutex_unlock(&objects_lock);
    return refuse(function, ACL_ERROR_INVALID_PARAM, "%p is no %s, or one that was destroyed", handle,
                  words[kind - TENSOR_DESC]);
}

/* Ends an object; NULL is none. */
static aclError end_object(const char *function, enum kind kind, const void *handle)
{
    struct object *object;
    aclError code;
    if (handle == NULL) {
        return ACL_SUCCESS;
    }
    code = take_object(function, kind, handle, &object);
    if (code == ACL_SUCCESS) {
        free(object->dims);
        object->dims = NULL;
        object->handle = 0;
        /* A place whose generations are used up stays empty. */
        if (object->generation + 1 < (uintptr_t)1 << GENERATION_BITS) {
            object->next_free = objects_free;
            objects_free = (size_t)(object - objects);
        }
        give_back();
    }
    return code;
}

#endif
