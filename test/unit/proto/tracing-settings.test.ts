import { describe, expect, it } from "vitest";
import { readTracing } from "../../../proto/tracing-settings.ts";

function read(env: Readonly<Record<string, string>>) {
  const problems: string[] = [];
  return {
    settings: readTracing(
      (key) => env[key],
      (problem) => problems.push(problem),
    ),
    problems,
  };
}

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

describe("readTracing", () => {
  it("is off without an endpoint, whatever the other variables are", () => {
    expect(read({})).toEqual({ settings: undefined, problems: [] });
    expect(read({ OTEL_TRACES_SAMPLER: "jaeger_remote" })).toEqual({ settings: undefined, problems: [] });
  });

  it.each([{ OTEL_SDK_DISABLED: "TRUE" }, { OTEL_TRACES_EXPORTER: "none" }])("is off with %o", (off) => {
    expect(read({ ...endpoint, ...off })).toEqual({ settings: undefined, problems: [] });
  });

  it("is on with either endpoint, and exports a tenth", () => {
    expect(read(endpoint).settings).toMatchObject({ ratio: 0.1, isParentBased: true, clientsPerMinute: 60 });
    expect(read({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://collector/v1/traces" }).settings).toBeDefined();
  });

  it.each([
    ["always_on", 1, false],
    ["always_off", 0, false],
    ["traceidratio", 0.25, false],
    ["parentbased_always_on", 1, true],
    ["parentbased_always_off", 0, true],
    ["parentbased_traceidratio", 0.25, true],
  ])("reads the sampler %s", (OTEL_TRACES_SAMPLER, ratio, isParentBased) => {
    const env = { ...endpoint, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG: "0.25" };
    expect(read(env).settings).toMatchObject({ ratio, isParentBased });
  });

  it.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"],
    ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"],
    ["OTEL_TRACES_EXPORTER", "console"],
    ["OTEL_TRACES_SAMPLER", "jaeger_remote"],
    ["OTEL_TRACES_SAMPLER_ARG", "1.5"],
    ["OTEL_BSP_MAX_QUEUE_SIZE", "many"],
    ["STOKER_TRACES_CLIENT_PER_MINUTE", "-1"],
  ])("reports %s=%s", (key, value) => {
    const { problems } = read({ ...endpoint, [key]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(key);
  });
});
