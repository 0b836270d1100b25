/* identity.c - which compiler is this, really.
 *
 * A version string names a product, not a build: distributions patch, and /usr/bin/clang-22 is a stub whose compiler is
 * in libclang-cpp and libLLVM. So an identity is the set of GNU build IDs of the files a compiler has mapped: for
 * libraries those of this process (read from memory, so that a file replaced on disk since does not lie), for programs
 * those of a process that has started to read its input. C and system libraries are left out: they make no code, and
 * security updates of libc must not empty caches.
 */
#include "generator/helper/helper.h"

#include "base/codeobject.h"
#include "base/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double start_seconds = 5; /* longest wait for a compiler to start reading */

static bool identity_has(const struct identity *identity, const char *id)
{
    for (int i = 0; i < identity->count; i++) {
        if (strcmp(identity->files[i].id, id) == 0) {
            return true;
        }
    }
    return false;
}

static bool file_state(struct identity_file *file, const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return false;
    }
    file->modified = facts.st_mtim;
    file->inode = (uint64_t)facts.st_ino;
    file->bytes = (uint64_t)facts.st_size;
    return true;
}

void identity_put(struct identity *identity, const char *path, const char *id)
{
    if (identity->count < IDENTITY_FILES_MAX && !identity_has(identity, id)) {
        struct identity_file *file = &identity->files[identity->count++];
        (void)snprintf(file->path, sizeof file->path, "%s", path);
        (void)snprintf(file->id, sizeof file->id, "%s", id);
        (void)file_state(file, file->path);
    }
}

bool identity_outdated(const struct identity *identity)
{
    for (int i = 0; i < identity->count; i++) {
        const struct identity_file *then = &identity->files[i];
        struct identity_file now;
        if (!file_state(&now, then->path) || now.inode != then->inode || now.bytes != then->bytes ||
            now.modified.tv_sec != then->modified.tv_sec || now.modified.tv_nsec != then->modified.tv_nsec) {
            return true;
        }
    }
    return false;
}

static bool note_build_id(const ElfW(Nhdr) * note, size_t left, char *id, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)(note + 1);
    size_t name = (note->n_namesz + (size_t)3) & ~(size_t)3;
    if (left < sizeof *note + name + note->n_descsz || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 ||
        memcmp(at, "GNU", 4) != 0 || note->n_descsz == 0 || (size_t)note->n_descsz * 2 >= bytes) {
        return false;
    }
    for (size_t i = 0; i < note->n_descsz; i++) {
        (void)snprintf(id + 2 * i, 3, "%02x", at[name + i]);
    }
    return true;
}

static bool notes_build_id(const char *at, size_t left, char *id, size_t bytes)
{
    while (left >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
        if (note_build_id(note, left, id, bytes)) {
            return true;
        }
        size_t step =
            sizeof *note + ((note->n_namesz + (size_t)3) & ~(size_t)3) + ((note->n_descsz + (size_t)3) & ~(size_t)3);
        if (step > left) {
            break;
        }
        at += step;
        left -= step;
    }
    return false;
}

void identity_add_file(struct identity *identity, const char *path)
{
    struct stat facts;
    char id[BUILD_ID_BYTES];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return;
    }
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
        size_t bytes = (size_t)facts.st_size;
        void *content = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (content != MAP_FAILED) {
            if (codeobject_build_id(content, bytes, id, sizeof id, NULL) != ATTUNE_OK) {
                struct digest digest;
                char hex[DIGEST_HEX_BYTES];
                digest_of(content, bytes, &digest);
                digest_hex(&digest, hex);
                (void)snprintf(id, sizeof id, "blake2b:%s", hex);
            }
            identity_put(identity, path, id);
            (void)munmap(content, bytes);
        }
    }
    (void)close(file);
}

/* ---- this process ---- */

struct loaded_search {
    struct identity *identity;
    const char *const *parts;
};

static bool loaded_build_id(const struct dl_phdr_info *info, char *id, size_t bytes)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_NOTE) {
            continue;
        }
        /* the loader gives addresses as integers */
        const char *notes = (const char *)(info->dlpi_addr + header->p_vaddr); /* NOLINT(performance-no-int-to-ptr) */
        if (notes_build_id(notes, header->p_memsz, id, bytes)) {
            return true;
        }
    }
    return false;
}

static int look_at_loaded(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct loaded_search *search = argument;
    (void)size;
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
    if (slash == NULL) {
        return 0;
    }
    for (const char *const *part = search->parts; *part != NULL; part++) {
        if (strstr(slash + 1, *part) != NULL) {
            char real[PATH_MAX];
            char id[BUILD_ID_BYTES];
            const char *path = realpath(info->dlpi_name, real) != NULL ? real : info->dlpi_name;
            if (loaded_build_id(info, id, sizeof id)) {
                identity_put(search->identity, path, id);
            } else {
                identity_add_file(search->identity, path);
            }
            break;
        }
    }
    return 0;
}

void identity_add_loaded(struct identity *identity, const char *const *parts)
{
    struct loaded_search search = {identity, parts};
    (void)dl_iterate_phdr(look_at_loaded, &search);
}

/* ---- a program ---- */

/* libraries that make no code */
static bool is_system_library(const char *path)
{
    static const char *const names[] = {
        "ld-linux",   "libc.so",   "libc-",      "libm.so",   "libm-",   "libdl",      "libpthread", "librt",
        "libgcc_s",   "libstdc++", "libz.so",    "libzstd",   "libxml2", "libtinfo",   "libedit",    "libbsd",
        "libmd",      "libicu",    "liblzma",    "libffi",    "libpcre", "libselinux", "locale",     "gconv",
        "libncurses", "libz3",     "libjansson", "libresolv", "libasan", "libubsan",   "libtsan",    "libjemalloc"};
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void add_maps(struct identity *identity, pid_t pid)
{
    char name[64];
    char *line = NULL;
    size_t room = 0;
    (void)snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    if (maps == NULL) {
        return;
    }
    while (getline(&line, &room, maps) > 0) {
        char *path = strchr(line, '/');
        if (path == NULL || strstr(line, " r-xp ") == NULL) {
            continue;
        }
        path[strcspn(path, "\n")] = '\0';
        if (!is_system_library(path)) {
            identity_add_file(identity, path);
        }
    }
    free(line);
    (void)fclose(maps);
}

void identity_add_process(struct identity *identity, const char *const *argv)
{
    static const char input[] = "int attune;\n";
    int ends[2];
    int unread = 0;
    char path[PATH_MAX];
    char real[PATH_MAX];
    if (!run_find(argv[0], path, real)) {
        return;
    }
    identity_add_file(identity, real);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(ends[0], 0) >= 0 && dup2(nothing, 1) >= 0 && dup2(nothing, 2) >= 0 && chdir("/") == 0) {
            (void)execv(path, (char *const *)argv);
        }
        _exit(127);
    }
    if (child > 0) {
        double deadline = clock_seconds() + start_seconds;
        siginfo_t info = {0};
        (void)!write(ends[1], input, sizeof input - 1);
        /* once it has read, everything that it links is loaded; it then waits for more until we kill it */
        do {
            (void)usleep(2000);
        } while (ioctl(ends[1], FIONREAD, &unread) == 0 && unread > 0 && clock_seconds() < deadline &&
                 !(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child));
        add_maps(identity, child);
        (void)kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (nothing >= 0) {
        (void)close(nothing);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* ---- the answer ---- */

static int compare_ids(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

void identity_digest(const struct identity *identity, char hex[DIGEST_HEX_BYTES])
{
    const char *ids[IDENTITY_FILES_MAX];
    struct digest_state state;
    struct digest digest;
    for (int i = 0; i < identity->count; i++) {
        ids[i] = identity->files[i].id;
    }
    qsort(ids, (size_t)identity->count, sizeof ids[0], compare_ids);
    digest_begin(&state);
    for (int i = 0; i < identity->count; i++) {
        digest_field(&state, ids[i], strlen(ids[i]));
    }
    digest_end(&state, &digest);
    digest_hex(&digest, hex);
}

/* JSON holds UTF-8 only; a path may hold any bytes */
static json_t *path_to_json(const char *path)
{
    char text[PATH_MAX];
    json_t *value = json_string(path);
    if (value == NULL) {
        (void)snprintf(text, sizeof text, "%s", path);
        for (char *at = text; *at != '\0'; at++) {
            if ((unsigned char)*at >= 0x80) {
                *at = '?';
            }
        }
        value = json_string(text);
    }
    return value;
}

json_t *identity_to_json(const struct identity *identity)
{
    json_t *list = json_array();
    for (int i = 0; i < identity->count; i++) {
        json_array_append_new(list, json_pack("{s:o, s:s}", "path", path_to_json(identity->files[i].path), "build_id",
                                              identity->files[i].id));
    }
    return list;
}
