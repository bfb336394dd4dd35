// The OpenTelemetry SDK behind `Tracing`, with a receiver that decodes what it exports.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openTracing } from "../../../proto/open-tracing.ts";
import { readTracing } from "../../../proto/tracing-settings.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../../fakes/otlp-receiver.ts";

const root = join(import.meta.dirname, "../../..");
const client = {
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  spanId: "00f067aa0ba902b7",
  isSampled: true,
  state: "a=1",
};

describe("an exporter of traces", () => {
  let receiver: OtlpReceiver | undefined;
  afterEach(async () => {
    vi.unstubAllEnvs();
    await receiver?.close();
    receiver = undefined;
  });

  async function open(given: Readonly<Record<string, string>>, warnings: object[] = []) {
    const env = { OTEL_TRACES_SAMPLER: "parentbased_always_on", ...given };
    for (const [key, value] of Object.entries(env)) vi.stubEnv(key, value);
    const settings = readTracing((key) => (env as Readonly<Record<string, string>>)[key], expect.unreachable);
    const log = { warn: (facts: object) => void warnings.push(facts) };
    const tracing = await openTracing(settings, { service: "stoker-test", version: "1.2.3", log });
    return tracing ?? expect.unreachable("traces are off");
  }

  it("sends spans with their attributes, links and errors, and the resource and headers of the environment", async () => {
    receiver = await startOtlpReceiver();
    const tracing = await open({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=seven",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
    });
    const span = tracing.ofClient("first name", client, { kind: "server", attributes: { absent: undefined, n: 1 } });
    const child = span.child("child", { kind: "client", links: [client] });
    child?.set({ list: ["a", "b"], half: 0.5, is: true });
    child?.end({ error: "it_failed" });
    span.rename("last name");
    span.end();
    await tracing.close();

    const [sentChild, sent] = receiver.spans;
    expect(sent).toMatchObject({
      service: "stoker-test",
      name: "last name",
      kind: 2,
      traceId: client.traceId,
      parentSpanId: client.spanId,
      traceState: "a=1",
      attributes: { n: 1 },
      status: 0,
    });
    expect(span.context).toEqual({ traceId: client.traceId, spanId: sent?.spanId, isSampled: true, state: "a=1" });
    expect(sentChild).toMatchObject({
      name: "child",
      kind: 3,
      parentSpanId: sent?.spanId,
      attributes: { list: ["a", "b"], half: 0.5, is: true, "error.type": "it_failed" },
      links: [{ traceId: client.traceId, spanId: client.spanId }],
      status: 2,
    });
    expect(receiver.headers[0]).toMatchObject({ "x-tenant": "seven", "content-type": "application/x-protobuf" });
    expect(receiver.resources[0]).toMatchObject({
      "service.name": "stoker-test",
      "service.version": "1.2.3",
      "service.namespace": "stoker",
      "deployment.environment.name": "test",
    });
  });

  it("keeps the times that it is given", async () => {
    receiver = await startOtlpReceiver();
    const tracing = await open({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint });
    const startMs = performance.now() - 1000;
    tracing.start("past", undefined, { startMs })?.end({ endMs: startMs + 250 });
    await tracing.close();
    const [span] = receiver.spans;
    expect(Number((span?.endNs ?? 0n) - (span?.startNs ?? 0n)) / 1e6).toBeCloseTo(250, 1);
    expect(Number(span?.startNs) / 1e6).toBeCloseTo(performance.timeOrigin + startMs, -2);
  });

  it("exports nothing of a trace that is not sampled, and passes its context on", async () => {
    receiver = await startOtlpReceiver();
    const tracing = await open({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint, OTEL_TRACES_SAMPLER: "always_off" });
    const span = tracing.ofClient("request", client);
    expect(span.context).toMatchObject({ traceId: client.traceId, isSampled: false, state: "a=1" });
    expect(span.child("child")).toBeUndefined();
    expect(tracing.start("own", undefined)).toBeUndefined();
    expect(tracing.start("caused by one that is not exported", undefined, { links: [span.context] })).toBeUndefined();
    span.end();
    await tracing.close();
    expect(receiver.spans).toEqual([]);
  });

  it("ends and warns once where no collector listens", async () => {
    const warnings: object[] = [];
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
      OTEL_EXPORTER_OTLP_TIMEOUT: "200",
      OTEL_BSP_SCHEDULE_DELAY: "1",
    };
    const tracing = await open(env, warnings);
    tracing.start("lost", undefined)?.end();
    await vi.waitFor(() => expect(warnings).toHaveLength(1), { timeout: 20_000 });
    tracing.start("lost", undefined)?.end();
    await tracing.close();
    expect(warnings).toHaveLength(1);
  });
});

describe("a process without an exporter", () => {
  it("loads no package of OpenTelemetry's SDK", () => {
    const loaded = `
      import { registerHooks } from "node:module";
      const seen = [];
      registerHooks({ load: (url, context, next) => (seen.push(url), next(url, context)) });
      const { openTracing } = await import("./proto/open-tracing.ts");
      const { readTracing } = await import("./proto/tracing-settings.ts");
      const env = JSON.parse(process.argv[1]);
      await openTracing(readTracing((key) => env[key], () => {}), { service: "a", version: "1", log: { warn() {} } });
      console.log(seen.filter((url) => url.includes("@opentelemetry")).length);
      process.exit(0);
    `;
    const count = (env: object) => {
      const args = ["--input-type=module", "-e", loaded, JSON.stringify(env)];
      return Number(spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" }).stdout);
    };
    expect(count({})).toBe(0);
    expect(count({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" })).toBeGreaterThan(0);
  });
});
