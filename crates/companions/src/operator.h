/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of libacl_op_compiler.so: operators, all of which fail, their attributes, and the compiler's
 * options. */

/*
 * Fails, and has the stream fail from here on: all streams of its context answer this code to every
 * synchronise and to new work until the context ends, as aclrtResetDevice does for a device's own. A single
 * failure would be overlooked: torch_npu drops everything that is queued behind it, and raises once.
 */
EXPORTED aclError aclopCompileAndExecute(const char *opType, int numInputs,
                                         const aclTensorDesc *const inputDesc[],
                                         const aclDataBuffer *const inputs[], int numOutputs,
                                         const aclTensorDesc *const outputDesc[],
                                         aclDataBuffer *const outputs[], const aclopAttr *attr,
                                         aclopEngineType engineType, aclopCompileType compileFlag,
                                         const char *opPath, aclrtStream stream)
{
    char name[256], note[512];
    (void)numInputs, (void)inputDesc, (void)inputs, (void)numOutputs, (void)outputDesc, (void)outputs,
        (void)attr;
    (void)engineType, (void)compileFlag, (void)opPath;
    if (read_text(__func__, "opType", opType, name, sizeof name) != ACL_SUCCESS) {
        strcpy(name, "?");
    }
    snprintf(note, sizeof note,
             "operator %s: this runtime copies memory and has no operators; ferry run --torch has the CPU "
             "run them, or set TASK_QUEUE_ENABLE=0 for the Python line",
             name);
    return ferryOperatorFailed(__func__, note, ACL_ERROR_API_NOT_SUPPORT, stream);
}

/* Sets an option of the operator compiler. There is none: every option is as good as any other. */
EXPORTED aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
    (void)opt;
    return read_text(__func__, "value", value, NULL, 0);
}

EXPORTED aclopAttr *aclopCreateAttr(void)
{
    return add_object(ATTRIBUTES, (struct object){0});
}

EXPORTED void aclopDestroyAttr(const aclopAttr *attr)
{
    end_object(__func__, ATTRIBUTES, attr);
}

/* What is the same for every value: the list and the name. Values are not kept, since no operator reads
 * them. */
static aclError set_attr(const char *function, const void *attr, const char *name)
{
    struct object *object;
    aclError code = read_text(function, "attrName", name, NULL, 0);
    if (code == ACL_SUCCESS) {
        code = take_object(function, ATTRIBUTES, attr, &object);
    }
    if (code == ACL_SUCCESS) {
        give_back();
    }
    return code;
}

static aclError set_attr_list(const char *function, const void *attr, const char *name, int count,
                              const void *values, size_t size)
{
    aclError code = reach_list(function, "values", values, count, size);
    return code == ACL_SUCCESS ? set_attr(function, attr, name) : code;
}

EXPORTED aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue)
{
    (void)attrValue;
    return set_attr(__func__, attr, attrName);
}

EXPORTED aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue)
{
    (void)attrValue;
    return set_attr(__func__, attr, attrName);
}

EXPORTED aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue)
{
    (void)attrValue;
    return set_attr(__func__, attr, attrName);
}

EXPORTED aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue)
{
    (void)attrValue;
    return set_attr(__func__, attr, attrName);
}

EXPORTED aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue)
{
    aclError code = read_text(__func__, "attrValue", attrValue, NULL, 0);
    return code == ACL_SUCCESS ? set_attr(__func__, attr, attrName) : code;
}

EXPORTED aclError aclopSetAttrListBool(aclopAttr *attr, const char *attrName, int numValues,
                                       const uint8_t *values)
{
    return set_attr_list(__func__, attr, attrName, numValues, values, sizeof *values);
}

EXPORTED aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues,
                                      const int64_t *values)
{
    return set_attr_list(__func__, attr, attrName, numValues, values, sizeof *values);
}

EXPORTED aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues,
                                        const float *values)
{
    return set_attr_list(__func__, attr, attrName, numValues, values, sizeof *values);
}

EXPORTED aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists,
                                          const int *numValues, const int64_t *const values[])
{
    aclError code = reach_list(__func__, "numValues", numValues, numLists, sizeof *numValues);
    int i;
    if (code == ACL_SUCCESS) {
        code = reach_list(__func__, "values", values, numLists, sizeof *values);
    }
    for (i = 0; code == ACL_SUCCESS && i < numLists; i++) {
        code = reach_list(__func__, "a list of values", values[i], numValues[i], sizeof **values);
    }
    return code == ACL_SUCCESS ? set_attr(__func__, attr, attrName) : code;
}
