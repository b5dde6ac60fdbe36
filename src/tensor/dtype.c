/* dtype.c - sizes and names of data types, names of devices. */
#include <pto/tensor.h>

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
