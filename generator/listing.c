/* listing.c - the text of a disassembler, line by line. */
#include "generator/listing.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool slice_is(struct slice slice, const char *text)
{
    return slice.length == strlen(text) && memcmp(slice.text, text, slice.length) == 0;
}

bool slice_begins(struct slice slice, const char *text)
{
    size_t length = strlen(text);
    return slice.length >= length && memcmp(slice.text, text, length) == 0;
}

/* `*` matches any text; the last one that matched is where a mismatch goes back to */
bool slice_fits(const char *pattern, struct slice text)
{
    const char *star = NULL;
    size_t at = 0, retry = 0;
    while (at < text.length) {
        if (*pattern == '*') {
            star = pattern++;
            retry = at;
        } else if (*pattern == text.text[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct slice trimmed(const char *begin, const char *end)
{
    while (begin < end && is_blank(*begin)) {
        begin++;
    }
    while (end > begin && is_blank(end[-1])) {
        end--;
    }
    return (struct slice){begin, (size_t)(end - begin)};
}

struct slice slice_operand(struct slice operands, int index)
{
    const char *begin = operands.text;
    const char *end = operands.text + operands.length;
    int depth = 0;
    for (const char *at = begin; at < end; at++) {
        depth += *at == '[' || *at == '(' ? 1 : *at == ']' || *at == ')' ? -1 : 0;
        if (*at == ',' && depth <= 0) {
            if (index-- == 0) {
                return trimmed(begin, at);
            }
            begin = at + 1;
        }
    }
    return index == 0 ? trimmed(begin, end) : (struct slice){end, 0};
}

bool slice_number(struct slice slice, int64_t *value)
{
    char text[24];
    char *end = NULL;
    if (slice.length == 0 || slice.length >= sizeof text ||
        (!isdigit((unsigned char)slice.text[0]) && slice.text[0] != '-')) {
        return false;
    }
    memcpy(text, slice.text, slice.length);
    text[slice.length] = '\0';
    bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    long long number = strtoll(text, &end, hexadecimal ? 16 : 10);
    if (*end != '\0' || number > LISTING_NUMBER_MAX || number < -LISTING_NUMBER_MAX) {
        return false;
    }
    *value = hexadecimal && number >= 0x80000000LL && number <= 0xffffffffLL ? number - 0x100000000LL : number;
    return true;
}

/* ---- lines ---- */

struct label {
    struct slice name;
    int index; /* of the instruction that follows */
};

struct reading {
    struct listing *listing;
    int capacity;
    struct label *labels;
    int label_count, label_capacity;
    bool inside; /* the function that was asked for */
};

static bool grow(void **items, int *capacity, int count, size_t size)
{
    if (count < *capacity) {
        return true;
    }
    int wanted = *capacity > 0 ? 2 * *capacity : 1024;
    void *larger = realloc(*items, (size_t)wanted * size);
    if (larger == NULL) {
        return false;
    }
    *items = larger;
    *capacity = wanted;
    return true;
}

static bool hexadecimal(struct slice slice, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < slice.length; i++) {
        unsigned char c = (unsigned char)slice.text[i];
        if (!isxdigit(c)) {
            return false;
        }
        *value = *value << 4 | (uint64_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    return slice.length > 0 && slice.length <= 16;
}

static void split_instruction(struct slice body, struct instruction *instruction)
{
    const char *end = body.text + body.length;
    const char *at = body.text;
    while (at < end && !is_blank(*at)) {
        at++;
    }
    instruction->mnemonic = (struct slice){body.text, (size_t)(at - body.text)};
    instruction->operands = trimmed(at, end);
}

/* "  1900:  s_load_dwordx2 s[10:11], s[4:5], 0x90  ; to 1d3c <name+0x43c>" */
static bool read_amd(struct slice line, struct instruction *instruction)
{
    const char *end = line.text + line.length;
    const char *colon = memchr(line.text, ':', line.length);
    if (colon == NULL || !hexadecimal(trimmed(line.text, colon), &instruction->address)) {
        return false;
    }
    const char *comment = memchr(colon, ';', (size_t)(end - colon));
    struct slice body = trimmed(colon + 1, comment != NULL ? comment : end);
    if (body.length == 0 || body.text[0] == '.') {
        return false;
    }
    split_instruction(body, instruction);
    bool always = slice_is(instruction->mnemonic, "s_branch");
    instruction->branches = always || slice_begins(instruction->mnemonic, "s_cbranch");
    instruction->falls_through =
        !always && !slice_begins(instruction->mnemonic, "s_endpgm") && !slice_begins(instruction->mnemonic, "s_setpc");
    return true;
}

/* the address behind "; to ", on the rest of the line */
static bool amd_goal(const char *from, const char *end, uint64_t *address)
{
    for (const char *at = from; at + 5 < end && *at != '\n'; at++) {
        if (memcmp(at, "; to ", 5) == 0) {
            const char *stop = at + 5;
            while (stop < end && isxdigit((unsigned char)*stop)) {
                stop++;
            }
            return hexadecimal((struct slice){at + 5, (size_t)(stop - at - 5)}, address);
        }
    }
    return false;
}

/* "@PT" and "@UPT" hold always, "@!PT" and "@!UPT" never */
static bool holds_always(struct slice predicate)
{
    return slice_is(predicate, "PT") || slice_is(predicate, "UPT");
}

static bool holds_never(struct slice predicate)
{
    return slice_is(predicate, "!PT") || slice_is(predicate, "!UPT");
}

/* "  /" "*0010*" "/  @!P0 BRA `(.L_x_0) ;" with, from cuobjdump, the encoding behind. What never runs, like the
 * "@!PT LDS RZ, [RZ]" that compilers put around barriers, is issued and nothing more: a NOP. */
static bool read_nvidia(struct slice line, struct instruction *instruction)
{
    const char *end = line.text + line.length;
    struct slice text = trimmed(line.text, end);
    const char *close =
        text.length > 4 && memcmp(text.text, "/*", 2) == 0 ? memchr(text.text + 2, '*', text.length - 2) : NULL;
    if (close == NULL || close + 1 >= end || close[1] != '/' ||
        !hexadecimal((struct slice){text.text + 2, (size_t)(close - text.text - 2)}, &instruction->address)) {
        return false;
    }
    const char *semicolon = memchr(close, ';', (size_t)(end - close));
    struct slice body = trimmed(close + 2, semicolon != NULL ? semicolon : end);
    bool predicated = body.length > 0 && body.text[0] == '@';
    if (predicated) {
        const char *stop = body.text + body.length;
        const char *at = body.text;
        while (at < stop && !is_blank(*at)) {
            at++;
        }
        instruction->predicate = (struct slice){body.text + 1, (size_t)(at - body.text - 1)};
        body = trimmed(at, stop);
        predicated = !holds_always(instruction->predicate);
    }
    if (body.length == 0 || !isupper((unsigned char)body.text[0])) {
        return false;
    }
    split_instruction(body, instruction);
    instruction->falls_through = true;
    if (holds_never(instruction->predicate)) {
        instruction->mnemonic = (struct slice){"NOP", 3};
        instruction->operands = instruction->predicate = (struct slice){0};
        return true;
    }
    /* a far branch is written as a call that never comes back, to a label of the function itself */
    bool branch = slice_is(instruction->mnemonic, "BRA") || slice_begins(instruction->mnemonic, "BRA.") ||
                  (slice_is(instruction->mnemonic, "CALL.REL.NOINC") && slice_begins(instruction->operands, "`(.L_x_"));
    bool ends = branch || slice_is(instruction->mnemonic, "EXIT") || slice_begins(instruction->mnemonic, "RET") ||
                slice_begins(instruction->mnemonic, "BRX");
    /* "BRA P1, `(.L)" has a predicate of its own */
    bool own = branch && slice_operand(instruction->operands, 1).length > 0;
    instruction->branches = branch;
    instruction->falls_through = !ends || predicated || own;
    return true;
}

/* the header of a function: "0000000000001900 <name>:" or ".text.name:"; false when the line is none */
static bool read_header(struct slice line, enum target_vendor vendor, struct slice *name)
{
    const char *end = line.text + line.length;
    struct slice text = trimmed(line.text, end);
    uint64_t address;
    if (text.length < 3 || text.text[text.length - 1] != ':') {
        return false;
    }
    if (vendor == TARGET_NVIDIA) {
        *name = (struct slice){text.text + 6, text.length - 7};
        return text.length > 7 && slice_begins(text, ".text.");
    }
    const char *open = memchr(text.text, '<', text.length);
    if (open == NULL || text.text[text.length - 2] != '>' || !hexadecimal(trimmed(text.text, open), &address)) {
        return false;
    }
    const char *close = text.text + text.length - 2;
    *name = (struct slice){open + 1, (size_t)(close > open ? close - open - 1 : 0)};
    return true;
}

static attune_status read_line(struct reading *reading, struct slice line, enum target_vendor vendor,
                               struct error *error)
{
    struct instruction instruction = {.target = -1};
    struct listing *listing = reading->listing;
    struct slice text = trimmed(line.text, line.text + line.length);
    if (vendor == TARGET_NVIDIA && text.length > 1 && text.text[0] == '.' && text.text[text.length - 1] == ':') {
        if (!grow((void **)&reading->labels, &reading->label_capacity, reading->label_count, sizeof *reading->labels)) {
            return error_no_memory(error);
        }
        reading->labels[reading->label_count++] = (struct label){{text.text, text.length - 1}, listing->count};
    } else if (vendor == TARGET_NVIDIA ? read_nvidia(line, &instruction) : read_amd(line, &instruction)) {
        if (listing->count == LISTING_INSTRUCTIONS_MAX) {
            return error_set(error, ATTUNE_UNSUPPORTED, "the disassembly has more than %d instructions",
                             LISTING_INSTRUCTIONS_MAX);
        }
        if (!grow((void **)&listing->items, &reading->capacity, listing->count, sizeof *listing->items)) {
            return error_no_memory(error);
        }
        listing->items[listing->count++] = instruction;
    }
    return ATTUNE_OK;
}

/* ---- branches ---- */

static int at_address(const struct listing *listing, uint64_t address)
{
    int low = 0, high = listing->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (listing->items[middle].address < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < listing->count && listing->items[low].address == address ? low : -1;
}

static int compare_labels(const void *left, const void *right)
{
    const struct label *a = left;
    const struct label *b = right;
    size_t common = a->name.length < b->name.length ? a->name.length : b->name.length;
    int order = memcmp(a->name.text, b->name.text, common);
    return order != 0 ? order : a->name.length < b->name.length ? -1 : a->name.length > b->name.length;
}

static int at_label(const struct reading *reading, struct slice operands)
{
    const char *open = memchr(operands.text, '(', operands.length);
    const char *end = operands.text + operands.length;
    const char *close = open != NULL ? memchr(open, ')', (size_t)(end - open)) : NULL;
    if (close == NULL || reading->label_count == 0) {
        return -1;
    }
    struct label wanted = {{open + 1, (size_t)(close - open - 1)}, 0};
    const struct label *found =
        bsearch(&wanted, reading->labels, (size_t)reading->label_count, sizeof wanted, compare_labels);
    return found != NULL && found->index < reading->listing->count ? found->index : -1;
}

static void resolve(struct reading *reading, enum target_vendor vendor, const char *end)
{
    struct listing *listing = reading->listing;
    if (reading->label_count > 0) {
        qsort(reading->labels, (size_t)reading->label_count, sizeof *reading->labels, compare_labels);
    }
    for (int i = 0; i < listing->count; i++) {
        struct instruction *instruction = &listing->items[i];
        uint64_t address;
        int64_t number;
        if (!instruction->branches) {
            continue;
        }
        if (vendor == TARGET_AMD) {
            instruction->target =
                amd_goal(instruction->operands.text, end, &address) ? at_address(listing, address) : -1;
            continue;
        }
        instruction->target = at_label(reading, instruction->operands);
        for (int k = 0; k < 2 && instruction->target < 0; k++) {
            if (slice_number(slice_operand(instruction->operands, k), &number) && number >= 0) {
                instruction->target = at_address(listing, (uint64_t)number);
            }
        }
    }
}

attune_status listing_parse(const char *text, size_t length, enum target_vendor vendor, const char *function,
                            struct listing *listing, struct error *error)
{
    struct reading reading = {.listing = listing};
    const char *end = text + length;
    attune_status status = ATTUNE_OK;
    *listing = (struct listing){0};
    if (vendor == TARGET_HOST) {
        return error_set(error, ATTUNE_UNSUPPORTED, "loops are looked for in the code of GPUs, not of the host");
    }
    for (const char *at = text; at < end && status == ATTUNE_OK;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct slice line = {at, (size_t)((stop != NULL ? stop : end) - at)};
        struct slice name;
        if (read_header(line, vendor, &name)) {
            if (listing->count > 0) {
                break; /* the next function */
            }
            reading.inside = function == NULL || slice_is(name, function);
            reading.label_count = 0;
        }
        status = reading.inside ? read_line(&reading, line, vendor, error) : ATTUNE_OK;
        at = stop != NULL ? stop + 1 : end;
    }
    if (status == ATTUNE_OK && listing->count == 0) {
        status = error_set(error, ATTUNE_NOT_FOUND, "the disassembly has no instructions of %.64s",
                           function != NULL ? function : "any function");
    }
    for (int i = 1; i < listing->count && status == ATTUNE_OK; i++) {
        if (listing->items[i].address <= listing->items[i - 1].address) {
            status = error_set(error, ATTUNE_CORRUPT, "the disassembly's addresses do not ascend at 0x%llx",
                               (unsigned long long)listing->items[i].address);
        }
    }
    if (status == ATTUNE_OK) {
        resolve(&reading, vendor, end);
    } else {
        listing_free(listing);
    }
    free(reading.labels);
    return status;
}

void listing_free(struct listing *listing)
{
    free(listing->items);
    *listing = (struct listing){0};
}
