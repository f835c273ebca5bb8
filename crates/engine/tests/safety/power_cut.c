/* Writes down, in one order, what a process writes to the files of one directory, and when the disk had taken it.
 *
 * It is loaded before the C library (LD_PRELOAD), so that nothing has to know of it: neither SQLite, nor the standard
 * library. The test reads what is written here, and makes of it what a power cut at any moment would have left.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { FILES = 4096, NAME = 64 };

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static const char *directory;
static int journal = -1;
/* The name of the file that each descriptor stands for; empty where it is none of ours. */
static char names[FILES][NAME];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Whatever cannot be written down ends the process: a test on half a journal would prove nothing. */
static void put(const void *bytes, size_t count) {
    const char *at = bytes;
    while (count > 0) {
        ssize_t done = REAL(write)(journal, at, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) abort();
        at += done;
        count -= (size_t)done;
    }
}

/* One entry: what, of which thread, to which file, where, how much, and the bytes. */
static void note(char what, int file, uint64_t at, const void *bytes, uint64_t count) {
    uint64_t head[3] = { (uint64_t)gettid(), at, count };
    char entry[1 + NAME + sizeof head];
    entry[0] = what;
    memcpy(entry + 1, names[file], NAME);
    memcpy(entry + 1 + NAME, head, sizeof head);
    put(entry, sizeof entry);
    if (bytes) put(bytes, count);
}

static int is_ours(int file) {
    return file >= 0 && file < FILES && names[file][0] != 0;
}

/* What would be missing in the journal. */
static void refuse(const char *what) {
    dprintf(2, "power_cut.c cannot write down %s\n", what);
    abort();
}

static const char *watched(void) {
    if (!directory) directory = getenv("POWER_CUT_DIRECTORY");
    if (!directory) abort();
    return directory;
}

/* What lies deeper are locks, of which nothing outlives its process. */
static int is_inside(const char *path) {
    size_t length = strlen(watched());
    return strncmp(path, directory, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/');
}

static void opened(int file, const char *path, int flags) {
    pthread_mutex_lock(&order);
    if (journal < 0) {
        const char *to = getenv("POWER_CUT_JOURNAL");
        if (!to) abort();
        journal = REAL(open)(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (journal < 0) abort();
    }
    size_t length = strlen(watched());
    if (file >= 0 && file < FILES) {
        names[file][0] = 0;
        int inside = is_inside(path);
        const char *name = path + length + 1;
        /* What all processes share in memory is made anew after a power cut. */
        int shared = inside && strlen(name) > 4 && strcmp(name + strlen(name) - 4, "-shm") == 0;
        if (inside && !shared && strlen(name) < NAME) {
            strncpy(names[file], name, NAME - 1);
            if (flags & O_TRUNC) note('T', file, 0, NULL, 0);
        }
        /* When the directory is synced, what was unlinked in it is gone for certain. */
        if (strcmp(path, directory) == 0) strcpy(names[file], ".");
    }
    pthread_mutex_unlock(&order);
}

#define OPEN(name)                                        \
    int name(const char *path, int flags, ...) {          \
        va_list more;                                     \
        va_start(more, flags);                            \
        mode_t mode = va_arg(more, mode_t);               \
        va_end(more);                                     \
        int file = REAL(name)(path, flags, mode);         \
        if (file >= 0) opened(file, path, flags);         \
        return file;                                      \
    }
OPEN(open)
OPEN(open64)

/* By its whole name it is opened as above. By its name within a directory, none of ours may be, unless to be read. */
#define OPENAT(name)                                                                \
    int name(int within, const char *path, int flags, ...) {                        \
        va_list more;                                                               \
        va_start(more, flags);                                                      \
        mode_t mode = va_arg(more, mode_t);                                         \
        va_end(more);                                                               \
        if (path[0] != '/' && (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))) {  \
            char link[64], found[4096];                                             \
            if (within == AT_FDCWD) strcpy(link, "/proc/self/cwd");                 \
            else snprintf(link, sizeof link, "/proc/self/fd/%d", within);           \
            ssize_t length = readlink(link, found, sizeof found / 2);               \
            if (length < 0) abort();                                                \
            snprintf(found + length, sizeof found - length, "/%s", path);           \
            if (is_inside(found)) refuse(#name);                                    \
        }                                                                           \
        int file = REAL(name)(within, path, flags, mode);                           \
        if (file >= 0 && path[0] == '/') opened(file, path, flags);                 \
        return file;                                                                \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int file) {
    pthread_mutex_lock(&order);
    if (is_ours(file)) names[file][0] = 0;
    int done = REAL(close)(file);
    pthread_mutex_unlock(&order);
    return done;
}

#define PWRITE(name)                                                           \
    ssize_t name(int file, const void *bytes, size_t count, off64_t at) {      \
        if (!is_ours(file)) return REAL(name)(file, bytes, count, at);         \
        pthread_mutex_lock(&order);                                            \
        ssize_t done = REAL(name)(file, bytes, count, at);                     \
        if (done > 0) note('W', file, (uint64_t)at, bytes, (uint64_t)done);    \
        pthread_mutex_unlock(&order);                                          \
        return done;                                                           \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int file, const void *bytes, size_t count) {
    if (!is_ours(file)) return REAL(write)(file, bytes, count);
    pthread_mutex_lock(&order);
    int appends = fcntl(file, F_GETFL) & O_APPEND;
    off64_t at = lseek64(file, 0, appends ? SEEK_END : SEEK_CUR);
    ssize_t done = REAL(write)(file, bytes, count);
    if (done > 0) note('W', file, (uint64_t)at, bytes, (uint64_t)done);
    pthread_mutex_unlock(&order);
    return done;
}

#define TRUNCATE(name)                                            \
    int name(int file, off64_t length) {                          \
        if (!is_ours(file)) return REAL(name)(file, length);      \
        pthread_mutex_lock(&order);                               \
        int done = REAL(name)(file, length);                      \
        if (done == 0) note('T', file, (uint64_t)length, NULL, 0);\
        pthread_mutex_unlock(&order);                             \
        return done;                                              \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

/* Others may write while the disk is busy: what they write meanwhile it need not have taken. */
#define SYNC(name)                                        \
    int name(int file) {                                  \
        if (!is_ours(file)) return REAL(name)(file);      \
        pthread_mutex_lock(&order);                       \
        note('B', file, 0, NULL, 0);                      \
        pthread_mutex_unlock(&order);                     \
        int done = REAL(name)(file);                      \
        pthread_mutex_lock(&order);                       \
        if (done == 0) note('E', file, 0, NULL, 0);       \
        pthread_mutex_unlock(&order);                     \
        return done;                                      \
    }
SYNC(fsync)
SYNC(fdatasync)

/* Of these nothing is known to be used: where that changes, the test has to learn them. */
#define UNKNOWN(name, ...)                 \
    {                                      \
        if (is_ours(file)) refuse(#name);  \
        return REAL(name)(__VA_ARGS__);    \
    }
int fallocate64(int file, int mode, off64_t at, off64_t count) UNKNOWN(fallocate64, file, mode, at, count)
int posix_fallocate64(int file, off64_t at, off64_t count) UNKNOWN(posix_fallocate64, file, at, count)
int fallocate(int file, int mode, off_t at, off_t count) UNKNOWN(fallocate, file, mode, at, count)
int posix_fallocate(int file, off_t at, off_t count) UNKNOWN(posix_fallocate, file, at, count)
struct iovec;
ssize_t writev(int file, const struct iovec *parts, int count) UNKNOWN(writev, file, parts, count)
ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) UNKNOWN(pwritev64, file, parts, count, at)
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) UNKNOWN(pwritev, file, parts, count, at)

ssize_t copy_file_range(int from, off64_t *at, int file, off64_t *to, size_t count, unsigned flags)
    UNKNOWN(copy_file_range, from, at, file, to, count, flags)

/* What the test itself writes has a draft; the database and its log have none. */
static int is_database(const char *path) {
    return is_inside(path) && strncmp(path + strlen(directory) + 1, "app.db", 6) == 0;
}

int rename(const char *from, const char *to) {
    if (is_database(from) || is_database(to)) refuse("rename");
    return REAL(rename)(from, to);
}

int truncate(const char *path, off_t length) {
    if (is_inside(path)) refuse("truncate");
    return REAL(truncate)(path, length);
}

int unlink(const char *path) {
    size_t length = strlen(watched());
    pthread_mutex_lock(&order);
    int done = REAL(unlink)(path);
    /* A descriptor of its own for the name of what is gone. */
    if (done == 0 && journal >= 0 && is_inside(path) && strlen(path + length + 1) < NAME) {
        strncpy(names[FILES - 1], path + length + 1, NAME - 1);
        note('U', FILES - 1, 0, NULL, 0);
        names[FILES - 1][0] = 0;
    }
    pthread_mutex_unlock(&order);
    return done;
}
