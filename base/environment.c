/* environment.c - see environment.h */
#include "base/environment.h"

#include <stdlib.h>
#include <sys/auxv.h>

static const struct environment_variable variables[] = {
    {"ATTUNE_CACHE", "folder of the cache"},
    {"ATTUNE_JIT", "forbid, compile (default) or tune on a miss"},
    {"ATTUNE_STALE", "accept (default) or retune what another toolchain made"},
    {"ATTUNE_TEMPLATE_PATH", "folders with families of your own"},
    {"ATTUNE_TRACE", "file that notes which problems are launched, and how often"},
    {"ATTUNE_HELPER", "the compiling helper program"},
    {"ATTUNE_MEASURE", "the program that runs candidates, or none: in the calling process"},
    {"ATTUNE_CXX", "the C++ compiler for the host device, the only one tried"},
    {"ATTUNE_CLANG", "the clang for AMD targets, the only one tried"},
    {"ATTUNE_CODE_OBJECT", "AMD code object version"},
    {"ATTUNE_CUDA_LIBRARY", "path of the library to load for libcuda"},
    {"ATTUNE_HIP_LIBRARY", "path of the library to load for libamdhip64"},
    {"ATTUNE_NVML_LIBRARY", "path of the library to load for libnvidia-ml"},
    {"ATTUNE_HOST_SCHEDULE", "round-robin (default), greedy or reverse on the host device"},
    {"ATTUNE_HOST_WORKERS", "CPU threads that run blocks on the host device"},
    {"ATTUNE_RUNNER_ADDRESS", "the runner for verify --sanitize address"},
    {"ATTUNE_RUNNER_THREAD", "the runner for verify --sanitize thread"},
    {"ATTUNE_SIMULATOR", "the program that runs the launches of devices sim:TARGET"},
    {"ATTUNE_SIMULATOR_SECONDS", "limit of one of its launches (default 600)"},
    {"ATTUNE_SIMULATOR_KEEP", "1 keeps the folders of its launches"},
    {"ATTUNE_SYS", "folder that doctor reads in place of /sys: for tests"},
    {"ATTUNE_QUIET", "1 mutes warnings, and the line that a miss begins to tune"},
    {"XDG_CACHE_HOME", "parent of the cache folder"},
    {"HOME", "its .cache is used without the above"},
    {"TMPDIR", "where compilers work"},
    {"PATH", "where compilers and other programs are searched"},
    {"CUDA_HOME", "searched for NVRTC"},
    {"CUDA_PATH", "searched for NVRTC"},
    {"ROCM_PATH", "searched for hiprtc and clang"},
    {"ASAN_OPTIONS", "added to the sanitizer runners' own"},
    {"UBSAN_OPTIONS", "added to the sanitizer runners' own"},
    {"TSAN_OPTIONS", "added to the sanitizer runners' own"},
    /* what launchers tell the processes that they start */
    {"OMPI_COMM_WORLD_RANK", "mpirun of Open MPI: tune's rank"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI: tune's number of ranks"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "mpirun of Open MPI: tune's GPU among those of a machine"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun of Open MPI: among how many ranks tune divides a machine's cores"},
    {"OMPI_MCA_orte_precondition_transports", "mpirun of Open MPI: which job it is"},
    {"OMPI_MCA_ess_base_jobid", "mpirun of Open MPI: which job it is"},
    {"PMIX_NAMESPACE", "mpirun of Open MPI: which job it is"},
    {"PMI_RANK", "MPICH and its kin: tune's rank"},
    {"PMI_SIZE", "MPICH and its kin: tune's number of ranks"},
    {"PMI_JOBID", "MPICH and its kin: which job it is"},
    {"MPI_LOCALRANKID", "MPICH and its kin: tune's GPU among those of a machine"},
    {"MPI_LOCALNRANKS", "MPICH and its kin: among how many ranks tune divides a machine's cores"},
    {"SLURM_PROCID", "srun: tune's rank"},
    {"SLURM_STEP_NUM_TASKS", "srun: tune's number of ranks"},
    {"SLURM_NTASKS", "srun: tune's number of ranks"},
    {"SLURM_LOCALID", "srun: tune's GPU among those of a machine"},
    {"SLURM_STEP_TASKS_PER_NODE", "srun: among how many ranks tune divides a machine's cores"},
    {"SLURM_NODEID", "srun: which machine of the job it is"},
    {"SLURM_JOB_ID", "srun: which job it is"},
    {"SLURM_STEP_ID", "srun: which job it is"},
    {"SLURM_CLUSTER_NAME", "srun: which job it is"},
    {"SLURM_RESTART_COUNT", "srun: which job it is"},
    /* the loader's and the drivers' */
    {"LD_LIBRARY_PATH", "searched for drivers and compilers"},
    {"CUDA_VISIBLE_DEVICES", "hides NVIDIA devices"},
    {"HIP_VISIBLE_DEVICES", "hides AMD devices"},
    {"ROCR_VISIBLE_DEVICES", "hides AMD devices"},
    {"GPU_DEVICE_ORDINAL", "hides AMD devices"},
    {"HSA_OVERRIDE_GFX_VERSION", "makes an AMD device claim another target"},
};

bool environment_is_trusted(void)
{
    return getauxval(AT_SECURE) == 0;
}

const char *environment_get(const char *name)
{
    return environment_is_trusted() ? getenv(name) : NULL;
}

const struct environment_variable *environment_variable(size_t index)
{
    return index < sizeof variables / sizeof variables[0] ? &variables[index] : NULL;
}
