// OpenTelemetry's environment variables, as far as its packages do not read them: those read OTEL_EXPORTER_OTLP_* (headers, timeout,
// compression, certificates), OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.

export interface TracingSettings {
  /** Share of new traces that is exported, 0 to 1. */
  readonly ratio: number;
  /** A client's decision about its trace counts, within `clientsPerMinute` and `ratio`. */
  readonly isParentBased: boolean;
  /** Traces per minute and process that clients may have exported beyond `ratio`. */
  readonly clientsPerMinute: number;
  readonly batch: {
    readonly delayMs: number;
    readonly timeoutMs: number;
    readonly maxQueued: number;
    readonly maxBatch: number;
  };
}

/** Reads one variable; undefined for an absent and an empty one. */
export type ReadText = (key: string) => string | undefined;

const samplers = ["always_on", "always_off", "traceidratio"];

/** Undefined: no traces. `problem` receives what is wrong with a variable, as a sentence without its end. */
export function readTracing(text: ReadText, problem: (what: string) => void): TracingSettings | undefined {
  const problems: string[] = [];
  const number = (key: string, fallback: number, min: number, max: number): number => {
    const raw = text(key);
    const value = Number(raw ?? fallback);
    if (value >= min && value <= max) return value;
    problems.push(`${key} must be a number from ${min} to ${max}, not ${JSON.stringify(raw)}`);
    return fallback;
  };
  const oneOf = (key: string, values: readonly string[], fallback: string): string => {
    const value = text(key) ?? fallback;
    if (!values.includes(value)) problems.push(`${key} must be ${values.join(" or ")}`);
    return value;
  };
  const isDisabled = text("OTEL_SDK_DISABLED")?.toLowerCase() === "true";
  const endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"].map(
    (key) => [key, text(key)] as const,
  );
  for (const [key, value] of endpoints)
    if (value !== undefined && !/^https?:$/.test(URL.parse(value)?.protocol ?? ""))
      problems.push(`${key} must be a URL such as http://127.0.0.1:4318`);
  const exporter = oneOf("OTEL_TRACES_EXPORTER", ["otlp", "none"], "otlp");
  const ofTraces = text("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
  oneOf(
    ofTraces === undefined ? "OTEL_EXPORTER_OTLP_PROTOCOL" : "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    ["http/protobuf"],
    "http/protobuf",
  );
  const sampler = oneOf(
    "OTEL_TRACES_SAMPLER",
    samplers.flatMap((name) => [name, `parentbased_${name}`]),
    "parentbased_traceidratio",
  );
  // A tenth, unlike OpenTelemetry's default of all: writing a trace costs a fourth of the request that it describes (docs/BENCH.md).
  const ratio = number("OTEL_TRACES_SAMPLER_ARG", 0.1, 0, 1);
  const clientsPerMinute = number("STOKER_TRACES_CLIENT_PER_MINUTE", 60, 0, 1_000_000);
  const maxQueued = number("OTEL_BSP_MAX_QUEUE_SIZE", 8192, 1, 1_000_000);
  const batch = {
    delayMs: number("OTEL_BSP_SCHEDULE_DELAY", 5_000, 1, 3_600_000),
    timeoutMs: number("OTEL_BSP_EXPORT_TIMEOUT", 30_000, 1, 3_600_000),
    maxQueued,
    maxBatch: Math.min(maxQueued, number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 1, 1_000_000)),
  };
  const isOn = !isDisabled && exporter !== "none" && endpoints.some(([, value]) => value !== undefined);
  // The variables may be meant for other programs.
  if (!isOn) return undefined;
  for (const what of problems) problem(what);
  const kind = sampler.replace(/^parentbased_/, "");
  return {
    ratio: kind === "always_on" ? 1 : kind === "always_off" ? 0 : ratio,
    isParentBased: sampler.startsWith("parentbased_"),
    clientsPerMinute,
    batch,
  };
}
