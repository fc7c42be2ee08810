"""01: copy a rectangle out of a picture to the device and back, with acl.rt.memcpy2d_async.

A picture in memory is rows of bytes. The distance from the start of one row to the start of the next is its pitch. To copy a part
of a picture one says where its first byte is, how wide and how high it is, and both pitches; the bytes between the end of one row
and the start of the next are left alone.
"""

import acl
from check import check

PICTURE_WIDTH, PICTURE_HEIGHT = 16, 8  # the picture, one byte per pixel
LEFT, TOP, WIDTH, HEIGHT = 4, 2, 8, 4  # the part of it that we want
DEVICE_PITCH = 64  # rows on the device start at multiples of 64

# pyACL has no names for C's numbers; programs bring their own.
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
HUGE_FIRST = 0
UINT8 = 2  # NumPy's number of the type


def show(title, picture):
    print(title)
    for row in picture:
        print("  " + row.tobytes().decode())


def main():
    # Start the library and choose a device; everything after this belongs to that device.
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())

    # Page-locked host memory: with it the copies below only hand over work and return at once. With the memory of a NumPy array
    # they would work as well, but each call would return only when its copy is done.
    picture_ptr = check(acl.rt.malloc_host(PICTURE_WIDTH * PICTURE_HEIGHT))
    result_ptr = check(acl.rt.malloc_host(PICTURE_WIDTH * PICTURE_HEIGHT))
    # Device memory: an int to give to acl functions. The program itself cannot read or write there.
    device = check(acl.rt.malloc(DEVICE_PITCH * HEIGHT, HUGE_FIRST))

    # Two arrays that are this memory: nothing is copied, and they must not be used after free_host.
    picture = acl.util.ptr_to_numpy(picture_ptr, (PICTURE_HEIGHT, PICTURE_WIDTH), UINT8)
    result = acl.util.ptr_to_numpy(result_ptr, (PICTURE_HEIGHT, PICTURE_WIDTH), UINT8)
    for row in range(PICTURE_HEIGHT):
        for column in range(PICTURE_WIDTH):
            picture[row, column] = ord("a") + (row + column) % 26
    result[:] = ord(".")
    show("the picture:", picture)

    # To the device: HEIGHT rows of WIDTH bytes, PICTURE_WIDTH apart here and DEVICE_PITCH apart there.
    first = TOP * PICTURE_WIDTH + LEFT
    check(
        acl.rt.memcpy2d_async(
            device, DEVICE_PITCH, picture_ptr + first, PICTURE_WIDTH, WIDTH, HEIGHT, HOST_TO_DEVICE, stream
        )
    )
    # And back, into the middle of a picture of dots. A stream runs its tasks in order, so this one sees what the first wrote.
    check(
        acl.rt.memcpy2d_async(
            result_ptr + first, PICTURE_WIDTH, device, DEVICE_PITCH, WIDTH, HEIGHT, DEVICE_TO_HOST, stream
        )
    )

    # Success so far means: handed over. Only after this line is the result there to look at.
    check(acl.rt.synchronize_stream(stream))
    show("the part that went to the device and back:", result)

    for row in range(PICTURE_HEIGHT):
        for column in range(PICTURE_WIDTH):
            inside = TOP <= row < TOP + HEIGHT and LEFT <= column < LEFT + WIDTH
            expected = picture[row, column] if inside else ord(".")
            assert result[row, column] == expected, f"row {row}, column {column} is wrong"

    check(acl.rt.free(device))
    check(acl.rt.free_host(picture_ptr))
    check(acl.rt.free_host(result_ptr))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print(f"ok: {HEIGHT} rows of {WIDTH} bytes, and not a byte between them")


if __name__ == "__main__":
    main()
