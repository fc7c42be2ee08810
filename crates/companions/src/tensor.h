/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of libacl_op_compiler.so: tensor descriptors and data buffers. */

/* Copies dimensions into an object that nobody else sees; `numDims` 0 with NULL is a scalar, or an
 * optional input that is not there. */
static aclError copy_dims(const char *function, struct object *object, int numDims, const int64_t *dims)
{
    aclError code = reach_list(function, "dims", dims, numDims, sizeof *dims);
    if (code != ACL_SUCCESS || numDims == 0) {
        return code;
    }
    object->dims = malloc((size_t)numDims * sizeof *dims);
    if (object->dims == NULL) {
        return refuse(function, ACL_ERROR_BAD_ALLOC, "no memory for %d dimensions", numDims);
    }
    memcpy(object->dims, dims, (size_t)numDims * sizeof *dims);
    object->num_dims = numDims;
    return ACL_SUCCESS;
}

/* NULL if the dimensions cannot be read. */
EXPORTED aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims,
                                            aclFormat format)
{
    struct object object = {.data_type = dataType, .format = format};
    aclTensorDesc *desc;
    if (copy_dims(__func__, &object, numDims, dims) != ACL_SUCCESS) {
        return NULL;
    }
    desc = add_object(TENSOR_DESC, object);
    if (desc == NULL) {
        free(object.dims);
    }
    return desc;
}

EXPORTED void aclDestroyTensorDesc(const aclTensorDesc *desc)
{
    end_object(__func__, TENSOR_DESC, desc);
}

EXPORTED aclDataType aclGetTensorDescType(const aclTensorDesc *desc)
{
    struct object *object;
    aclDataType type = ACL_DT_UNDEFINED;
    if (take_object(__func__, TENSOR_DESC, desc, &object) == ACL_SUCCESS) {
        type = object->data_type;
        give_back();
    }
    return type;
}

EXPORTED aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc)
{
    struct object *object;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    if (take_object(__func__, TENSOR_DESC, desc, &object) == ACL_SUCCESS) {
        format = object->format;
        give_back();
    }
    return format;
}

EXPORTED size_t aclGetTensorDescNumDims(const aclTensorDesc *desc)
{
    struct object *object;
    size_t count = 0;
    if (take_object(__func__, TENSOR_DESC, desc, &object) == ACL_SUCCESS) {
        count = (size_t)object->num_dims;
        give_back();
    }
    return count;
}

EXPORTED aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize)
{
    struct object *object;
    size_t count;
    aclError code = reach(__func__, "dimSize", dimSize, 1, sizeof *dimSize, 1);
    if (code == ACL_SUCCESS) {
        code = take_object(__func__, TENSOR_DESC, desc, &object);
    }
    if (code != ACL_SUCCESS) {
        return code;
    }
    count = (size_t)object->num_dims;
    if (index < count) {
        memcpy(dimSize, &object->dims[index], sizeof *dimSize); /* at any alignment */
    }
    give_back();
    return index < count
               ? ACL_SUCCESS
               : refuse(__func__, ACL_ERROR_INVALID_PARAM, "index is %zu of %zu dimensions", index, count);
}

EXPORTED aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    struct object *object, fresh = {0};
    aclError code = copy_dims(__func__, &fresh, numDims, dims);
    if (code != ACL_SUCCESS) {
        return code;
    }
    code = take_object(__func__, TENSOR_DESC, desc, &object);
    if (code == ACL_SUCCESS) {
        int64_t *old = object->dims;
        object->dims = fresh.dims, object->num_dims = fresh.num_dims;
        fresh.dims = old;
        give_back();
    }
    free(fresh.dims);
    return code;
}

EXPORTED aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format)
{
    struct object *object;
    aclError code = take_object(__func__, TENSOR_DESC, desc, &object);
    if (code == ACL_SUCCESS) {
        object->format = format;
        give_back();
    }
    return code;
}

/* Whether the tensor is in host or device memory; nobody asks for that. */
EXPORTED aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType)
{
    struct object *object;
    aclError code = take_object(__func__, TENSOR_DESC, desc, &object);
    (void)memType;
    if (code == ACL_SUCCESS) {
        give_back();
    }
    return code;
}

/* Nobody asks for the name. */
EXPORTED void aclSetTensorDescName(aclTensorDesc *desc, const char *name)
{
    struct object *object;
    if (read_text(__func__, "name", name, NULL, 0) == ACL_SUCCESS &&
        take_object(__func__, TENSOR_DESC, desc, &object) == ACL_SUCCESS) {
        give_back();
    }
}

/* Stands for the memory of a tensor, which is not looked at; NULL and 0 are an optional input that is not
 * there. */
EXPORTED aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    (void)data, (void)size;
    return add_object(DATA_BUFFER, (struct object){0});
}

EXPORTED aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer)
{
    return end_object(__func__, DATA_BUFFER, dataBuffer);
}
