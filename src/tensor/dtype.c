/* dtype.c - sizes and names of data types, names of devices. */
#include <string.h>
#include <strings.h>

#include <pto/tensor.h>

#include "base/error.h"

static const uint8_t dtype_sizes[] = {
#define X(name, value, text, bytes) [value] = (bytes),
    PTO_DTYPE_MAP(X)
#undef X
};

static const char *const dtype_names[] = {[PTO_DTYPE_NONE] = "invalid",
#define X(name, value, text, bytes) [value] = (text),
                                          PTO_DTYPE_MAP(X)
#undef X
};

static const char *const device_names[] = {
#define X(name, value, text) [value] = (text),
    PTO_DEVICE_MAP(X)
#undef X
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The cast to size_t also catches a negative number that was cast to the enum. */
size_t pto_dtype_size(pto_dtype dtype)
{
    return (size_t)dtype < COUNT(dtype_sizes) ? dtype_sizes[(size_t)dtype] : 0;
}

const char *pto_dtype_name(pto_dtype dtype)
{
    return (size_t)dtype < COUNT(dtype_names) ? dtype_names[(size_t)dtype] : "invalid";
}

const char *pto_device_name(pto_device_type type)
{
    return (size_t)type < COUNT(device_names) ? device_names[(size_t)type] : "invalid";
}

pto_status pto_device_parse(const char *text, pto_device *device)
{
    if (!text || !device) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "device parse: %s is NULL", text ? "device" : "text");
    }
    const size_t length = strcspn(text, ":");
    for (uint32_t type = 0; type < COUNT(device_names); type++) {
        if (strlen(device_names[type]) != length ||
            strncasecmp(device_names[type], text, length) != 0) {
            continue;
        }
        const char *index = text + length + (text[length] == ':');
        int64_t number = text[length] ? 0 : -1;
        for (const char *c = index; *c && number >= 0 && number <= INT32_MAX; c++) {
            number = *c >= '0' && *c <= '9' ? number * 10 + (*c - '0') : -1;
        }
        if (text[length] && (!*index || number < 0 || number > INT32_MAX)) {
            break;
        }
        *device = (pto_device){(pto_device_type)type, number < 0 ? 0 : (int32_t)number};
        return PTO_OK;
    }
    return ptoi_fail(PTO_BAD_DEVICE, "device parse: \"%.40s\" is no device like cpu:0 or sim:0",
                     text);
}
