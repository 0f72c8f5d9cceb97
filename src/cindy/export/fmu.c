/* A functional mock-up unit (FMI 2.0) around one system of ordinary differential equations.
 *
 * model.h, which is written beside this file, defines MODEL_GUID, N_STATES, N_INPUTS, N_PARAMETERS,
 * N_SWITCHES, the table `start` and the functions
 *     void derivatives(double t, const double *x, const double *u, const double *p, double *dx),
 *     void indicators(double t, const double *x, const double *u, const double *p, double *z),
 * where z changes sign at the corners and jumps of the derivatives.
 *
 * Value references: states from 0, their derivatives, inputs, then parameters. In model exchange the
 * importing tool integrates. In co-simulation `fmi2DoStep` integrates by the pair of Dormand and Prince
 * of orders 5 and 4, with inputs held over the communication step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

typedef void *fmi2Component;
typedef void *fmi2ComponentEnvironment;
typedef void *fmi2FMUstate;
typedef unsigned int fmi2ValueReference;
typedef double fmi2Real;
typedef int fmi2Integer;
typedef int fmi2Boolean;
typedef char fmi2Char;
typedef const fmi2Char *fmi2String;
typedef char fmi2Byte;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;
typedef enum { fmi2ModelExchange, fmi2CoSimulation } fmi2Type;
typedef enum { fmi2DoStepStatus, fmi2PendingStatus, fmi2LastSuccessfulTime, fmi2Terminated } fmi2StatusKind;

typedef struct {
    void (*logger)(fmi2ComponentEnvironment, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
    void *(*allocateMemory)(size_t, size_t);
    void (*freeMemory)(void *);
    void (*stepFinished)(fmi2ComponentEnvironment, fmi2Status);
    fmi2ComponentEnvironment environment;
} fmi2CallbackFunctions;

typedef struct {
    fmi2Boolean newDiscreteStatesNeeded;
    fmi2Boolean terminateSimulation;
    fmi2Boolean nominalsOfContinuousStatesChanged;
    fmi2Boolean valuesOfContinuousStatesChanged;
    fmi2Boolean nextEventTimeDefined;
    fmi2Real nextEventTime;
} fmi2EventInfo;

#define N_VALUES (2 * N_STATES + N_INPUTS + N_PARAMETERS)
#define FIRST_INPUT (2 * N_STATES)
#define FIRST_PARAMETER (2 * N_STATES + N_INPUTS)

/* values: in the order of value references; the derivatives among them are computed when they are read */
typedef struct {
    double time;
    double tolerance;
    double step;
    double values[N_VALUES];
} Instance;

static void reset(Instance *one)
{
    one->time = 0.0;
    one->tolerance = 1e-8;
    one->step = 0.0;
    memcpy(one->values, start, sizeof one->values);
}

static void rates(const Instance *one, double t, const double *x, double *dx)
{
    derivatives(t, x, one->values + FIRST_INPUT, one->values + FIRST_PARAMETER, dx);
}

static int finite_all(const double *x, int count)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

/* Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19-26. The last stage is the slope of the new state. */
static const double NODE[7] = {0.0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1.0, 1.0};
static const double STAGE[7][6] = {
    {0.0},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0.0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84},
};
static const double DIFFERENCE[7] = {
    71.0 / 57600, 0.0, -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200, 22.0 / 525, -1.0 / 40,
};

/* One step of size h from x to y; returns the estimated error in units of the tolerance. */
static double attempt(const Instance *one, double h, const double *x, double *y)
{
    double slopes[7][N_STATES];
    for (int s = 0; s < 7; s++) {
        for (int i = 0; i < N_STATES; i++) {
            double sum = 0.0;
            for (int r = 0; r < s; r++) sum += STAGE[s][r] * slopes[r][i];
            y[i] = x[i] + h * sum;
        }
        rates(one, one->time + NODE[s] * h, y, slopes[s]);
    }
    double total = 0.0;
    for (int i = 0; i < N_STATES; i++) {
        double error = 0.0;
        for (int s = 0; s < 7; s++) error += DIFFERENCE[s] * slopes[s][i];
        const double size = one->tolerance * (1e-3 + fmax(fabs(x[i]), fabs(y[i])));
        total += (h * error / size) * (h * error / size);
    }
    return finite_all(y, N_STATES) ? sqrt(total / N_STATES) : INFINITY;
}

/* From the present time to `end`; fails where the steps become too small for floating point. */
static fmi2Status integrate(Instance *one, double end)
{
    double *x = one->values;
    double y[N_STATES];
    if (one->step <= 0.0) one->step = (end - one->time) * 1e-2;
    while (one->time < end) {
        const double left = end - one->time;
        const int last = one->step >= left * (1.0 - 1e-12);
        const double h = last ? left : one->step;
        const double error = attempt(one, h, x, y);
        const double growth = error > 0.0 ? 0.9 * pow(error, -0.2) : 5.0;
        if (error <= 1.0) {
            memcpy(x, y, sizeof y);
            one->time = last ? end : one->time + h;
            /* a step cut short by the end says little about the next one */
            if (!last || growth < 1.0) one->step = h * fmin(5.0, growth);
        } else {
            one->step = h * fmax(0.1, isfinite(error) ? growth : 0.1);
            if (one->step < 1e-14 * fmax(fabs(one->time), fabs(end))) return fmi2Error;
        }
    }
    return fmi2OK;
}

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }

EXPORT fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String names[])
{
    (void)c; (void)on; (void)n; (void)names;
    return fmi2OK;
}

EXPORT fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                                     const fmi2CallbackFunctions *functions, fmi2Boolean visible, fmi2Boolean log)
{
    (void)name; (void)type; (void)resources; (void)functions; (void)visible; (void)log;
    if (guid == NULL || strcmp(guid, MODEL_GUID) != 0) return NULL;
    Instance *one = malloc(sizeof *one);
    if (one != NULL) reset(one);
    return one;
}

EXPORT void fmi2FreeInstance(fmi2Component c) { free(c); }

EXPORT fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean told, fmi2Real tolerance, fmi2Real from,
                                      fmi2Boolean ends, fmi2Real to)
{
    Instance *one = c;
    (void)ends; (void)to;
    one->time = from;
    if (told && tolerance > 0.0) one->tolerance = fmin(tolerance, 1e-6);
    return fmi2OK;
}

EXPORT fmi2Status fmi2EnterInitializationMode(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2ExitInitializationMode(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2Terminate(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2Reset(fmi2Component c) { reset(c); return fmi2OK; }

EXPORT fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference which[], size_t n, fmi2Real value[])
{
    Instance *one = c;
    for (size_t i = 0; i < n; i++) {
        if (which[i] >= N_VALUES) return fmi2Error;
        if (which[i] >= N_STATES && which[i] < 2 * N_STATES)
            rates(one, one->time, one->values, one->values + N_STATES);
        value[i] = one->values[which[i]];
    }
    return fmi2OK;
}

EXPORT fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference which[], size_t n, const fmi2Real value[])
{
    Instance *one = c;
    for (size_t i = 0; i < n; i++) {
        if (which[i] >= N_VALUES || (which[i] >= N_STATES && which[i] < 2 * N_STATES)) return fmi2Error;
        one->values[which[i]] = value[i];
    }
    return fmi2OK;
}

/* All variables are real. */
EXPORT fmi2Status fmi2GetInteger(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Integer v[])
{ (void)c; (void)r; (void)v; return n ? fmi2Error : fmi2OK; }
EXPORT fmi2Status fmi2SetInteger(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer v[])
{ (void)c; (void)r; (void)v; return n ? fmi2Error : fmi2OK; }
EXPORT fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Boolean v[])
{ (void)c; (void)r; (void)v; return n ? fmi2Error : fmi2OK; }
EXPORT fmi2Status fmi2SetBoolean(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Boolean v[])
{ (void)c; (void)r; (void)v; return n ? fmi2Error : fmi2OK; }
EXPORT fmi2Status fmi2GetString(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2String v[])
{ (void)c; (void)r; (void)v; return n ? fmi2Error : fmi2OK; }
EXPORT fmi2Status fmi2SetString(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2String v[])
{ (void)c; (void)r; (void)v; return n ? fmi2Error : fmi2OK; }

EXPORT fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    if (*state == NULL) *state = malloc(sizeof(Instance));
    if (*state == NULL) return fmi2Error;
    memcpy(*state, c, sizeof(Instance));
    return fmi2OK;
}

EXPORT fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state)
{
    memcpy(c, state, sizeof(Instance));
    return fmi2OK;
}

EXPORT fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)c;
    free(*state);
    *state = NULL;
    return fmi2OK;
}

EXPORT fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t *size)
{
    (void)c; (void)state;
    *size = sizeof(Instance);
    return fmi2OK;
}

EXPORT fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte bytes[], size_t size)
{
    (void)c;
    if (size < sizeof(Instance)) return fmi2Error;
    memcpy(bytes, state, sizeof(Instance));
    return fmi2OK;
}

EXPORT fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *state)
{
    (void)c;
    if (size < sizeof(Instance)) return fmi2Error;
    if (*state == NULL) *state = malloc(sizeof(Instance));
    if (*state == NULL) return fmi2Error;
    memcpy(*state, bytes, sizeof(Instance));
    return fmi2OK;
}

EXPORT fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknown[], size_t n,
                                               const fmi2ValueReference known[], size_t m, const fmi2Real by[],
                                               fmi2Real result[])
{
    (void)c; (void)unknown; (void)n; (void)known; (void)m; (void)by; (void)result;
    return fmi2Error;
}

/* Model exchange. */
EXPORT fmi2Status fmi2EnterEventMode(fmi2Component c) { (void)c; return fmi2OK; }
EXPORT fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { (void)c; return fmi2OK; }

EXPORT fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info)
{
    (void)c;
    memset(info, 0, sizeof *info);
    return fmi2OK;
}

EXPORT fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean forgotten, fmi2Boolean *event,
                                              fmi2Boolean *stop)
{
    (void)c; (void)forgotten;
    *event = 0;
    *stop = 0;
    return fmi2OK;
}

EXPORT fmi2Status fmi2SetTime(fmi2Component c, fmi2Real time)
{
    ((Instance *)c)->time = time;
    return fmi2OK;
}

EXPORT fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n)
{
    if (n != N_STATES) return fmi2Error;
    memcpy(((Instance *)c)->values, x, n * sizeof *x);
    return fmi2OK;
}

EXPORT fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n)
{
    if (n != N_STATES) return fmi2Error;
    memcpy(x, ((Instance *)c)->values, n * sizeof *x);
    return fmi2OK;
}

EXPORT fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real dx[], size_t n)
{
    const Instance *one = c;
    if (n != N_STATES) return fmi2Error;
    rates(one, one->time, one->values, dx);
    return finite_all(dx, N_STATES) ? fmi2OK : fmi2Discard;
}

EXPORT fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real z[], size_t n)
{
    const Instance *one = c;
    if (n != N_SWITCHES) return fmi2Error;
    indicators(one->time, one->values, one->values + FIRST_INPUT, one->values + FIRST_PARAMETER, z);
    return fmi2OK;
}

EXPORT fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real nominal[], size_t n)
{
    (void)c;
    for (size_t i = 0; i < n; i++) nominal[i] = 1.0;
    return fmi2OK;
}

/* Co-simulation. */
EXPORT fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n,
                                              const fmi2Integer order[], const fmi2Real v[])
{ (void)c; (void)r; (void)order; (void)v; return n ? fmi2Error : fmi2OK; }

EXPORT fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n,
                                               const fmi2Integer order[], fmi2Real v[])
{ (void)c; (void)r; (void)order; (void)v; return n ? fmi2Error : fmi2OK; }

EXPORT fmi2Status fmi2DoStep(fmi2Component c, fmi2Real from, fmi2Real size, fmi2Boolean kept)
{
    Instance *one = c;
    (void)kept;
    one->time = from;
    return integrate(one, from + size);
}

EXPORT fmi2Status fmi2CancelStep(fmi2Component c) { (void)c; return fmi2Error; }
EXPORT fmi2Status fmi2GetStatus(fmi2Component c, fmi2StatusKind kind, fmi2Status *v)
{ (void)c; (void)kind; (void)v; return fmi2Discard; }
EXPORT fmi2Status fmi2GetRealStatus(fmi2Component c, fmi2StatusKind kind, fmi2Real *v)
{
    if (kind != fmi2LastSuccessfulTime) return fmi2Discard;
    *v = ((Instance *)c)->time;
    return fmi2OK;
}
EXPORT fmi2Status fmi2GetIntegerStatus(fmi2Component c, fmi2StatusKind kind, fmi2Integer *v)
{ (void)c; (void)kind; (void)v; return fmi2Discard; }
EXPORT fmi2Status fmi2GetBooleanStatus(fmi2Component c, fmi2StatusKind kind, fmi2Boolean *v)
{ (void)c; (void)kind; (void)v; return fmi2Discard; }
EXPORT fmi2Status fmi2GetStringStatus(fmi2Component c, fmi2StatusKind kind, fmi2String *v)
{ (void)c; (void)kind; (void)v; return fmi2Discard; }
