// deploy/compose.yaml for real: the stack answers through its proxy, and loses neither a control plane's nor Redis' death to a request.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type FakeHub, startHub } from "../fakes/hub.ts";
import { isAlive } from "../fakes/processes.ts";
import { type ComposeStack, findCompose, startComposeStack } from "./compose/stack.ts";
import { clear, dockerHost, loudly, tinyHost } from "./docker-host.ts";

const notProven = "the stack of deploy/compose.yaml, and that it survives the kill of a control plane and of Redis";
const host = await dockerHost(notProven, ["agent", "control-plane"]);
const compose = host.ok ? await findCompose() : undefined;
if (host.ok) {
  await tinyHost(notProven);
  if (!compose) loudly("Docker Compose 2 is not installed: scripts/go-tools.sh compose builds it", notProven);
}

const repo = "tiny/model";
const model = "admin/tiny";
const workerCount = 6;
/** Requests that begin after what happened. */
const afterCount = 300;
const patient = { timeout: 120_000, interval: 300 };

interface Sent {
  readonly startMs: number;
  readonly endMs: number;
  /** Status of the response with the code of its error, or why there is none. */
  readonly result: number | string;
}

describe.skipIf(!compose)("the stack of deploy/compose.yaml", () => {
  let hub: FakeHub;
  let stack: ComposeStack;
  let key: string;
  let hostId = "";

  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${stack.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    });
    // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails where it is not there.
    return { status: answer.status, body: (await answer.json()) as any };
  };
  const complete = () => call("POST", "/v1/completions", { model, prompt: "one", max_tokens: 2 });

  /** Sends requests before, while and after `act` runs. Returns all of them, and when `act` had happened. */
  async function underLoad(act: () => Promise<unknown>): Promise<{ sent: readonly Sent[]; happenedMs: number }> {
    const sent: Sent[] = [];
    let happenedMs = Number.POSITIVE_INFINITY;
    let begunAfter = 0;
    const work = async () => {
      while (begunAfter < afterCount) {
        const startMs = performance.now();
        if (startMs > happenedMs) begunAfter += 1;
        const result = await complete().then(
          ({ status, body }) => (status === 200 ? status : `${status} ${body.code ?? body.error?.code}`),
          (error: Error) => String(error.cause ?? error),
        );
        sent.push({ startMs, endMs: performance.now(), result });
      }
    };
    // What happened before has left both in use.
    await vi.waitFor(async () => {
      for (const one of ["control-plane-1", "control-plane-2"])
        expect(await stack.compose("ps", "--format", "{{.Health}}", one)).toBe("healthy");
    }, patient);
    const workers = Array.from({ length: workerCount }, work);
    await vi.waitFor(() => expect(sent.length).toBeGreaterThan(50), patient);
    await act();
    happenedMs = performance.now();
    await Promise.all(workers);
    return { sent, happenedMs };
  }
  /** Number of failed requests by result. */
  function failed(sent: readonly Sent[]): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const { result } of sent) if (result !== 200) counts[result] = (counts[result] ?? 0) + 1;
    return counts;
  }

  beforeAll(async () => {
    const content = Buffer.concat([Buffer.from("GGUF tiny\n"), Buffer.alloc(100_000, 32)]);
    hub = await startHub({ repo, files: { "model.gguf": content } });
    stack = await startComposeStack(compose as NonNullable<typeof compose>, hub.url);
    key = await stack.compose("exec", "-T", "control-plane-1", "cat", "/var/lib/stoker/admin.key");
  });
  afterAll(async () => {
    await stack?.stop();
    // Its model servers outlive an agent.
    if (hostId) await clear(hostId);
    await hub?.close();
  });

  it("answers a request through its proxy, from a model server that its agent started", async () => {
    await vi.waitFor(async () => {
      const { body } = await call("GET", "/v1/admin/nodes");
      expect(body.nodes).toMatchObject([{ state: "ready" }]);
      hostId = body.nodes[0].node_id;
    }, patient);
    const settings = { min_instances: 2, max_instances: 2 };
    const made = await call("POST", "/deploy/llm", {
      ...{ model_name: model, gpu: "other", max_batch_size: 4, hf: { repo }, settings },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    const deployId: string = made.body.deploy_id;
    await vi.waitFor(async () => {
      const { body } = await call("GET", `/deploy/${deployId}`);
      expect(body).toMatchObject({ status: "deployed", instances: { running: 2 } });
    }, patient);
    const pricing = { input: 10, cached_input: 5, output: 20 };
    const offered = await call("PUT", `/v1/admin/models/${model}`, { deploy_id: deployId, description: "", pricing });
    expect(offered.status, JSON.stringify(offered.body)).toBe(200);
    const answer = await complete();
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    expect(answer.body.choices[0].text).toBe("tiny words");
  });

  it("shows the console and the documentation, which are in the image", async () => {
    for (const path of ["/console/", "/docs/"]) {
      const page = await fetch(`${stack.url}${path}`);
      expect([page.status, page.headers.get("content-type")]).toEqual([200, expect.stringContaining("text/html")]);
    }
  });

  it("is scraped whole by its Prometheus", async () => {
    await vi.waitFor(async () => {
      const answer = await fetch(`${stack.prometheusUrl}/api/v1/query?query=sum by (job) (up)`);
      const { data } = (await answer.json()) as { data: { result: { metric: { job: string }; value: unknown[] }[] } };
      const up = Object.fromEntries(data.result.map(({ metric, value }) => [metric.job, value[1]]));
      expect(up).toEqual({ stoker: "2", "stoker-agents": "2" });
    }, patient);
  });

  it("has a way to each control plane for the time in which no check succeeds", async () => {
    await vi.waitFor(async () => {
      const lines = (await stack.compose("logs", "--no-color", "proxy")).split("\n");
      for (const name of ["control-plane-1-unchecked", "control-plane-2-unchecked"])
        expect(lines.findLast((line) => line.includes(name)) ?? "").not.toContain("DOWN");
    }, patient);
  });

  it("fails no request that begins after the kill of a control plane, which comes back", async () => {
    const pid = await stack.pidOf("control-plane-1");
    const { sent, happenedMs } = await underLoad(async () => {
      process.kill(pid, "SIGKILL");
      // Its sockets accept connections until it has ended.
      await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 30_000, interval: 5 });
    });
    const later = sent.filter(({ startMs }) => startMs > happenedMs);
    const inFlight = sent.filter(({ startMs, endMs }) => startMs <= happenedMs && endMs >= happenedMs);
    console.log(
      `kill of a control plane: of ${later.length} new requests failed ${JSON.stringify(failed(later))}, of the ${inFlight.length} that ran ${JSON.stringify(failed(inFlight))}`,
    );
    expect(later.length).toBeGreaterThanOrEqual(afterCount);
    expect(failed(later)).toEqual({});
    await vi.waitFor(async () => {
      expect(await stack.pidOf("control-plane-1")).not.toBe(pid);
      expect(await stack.compose("ps", "--format", "{{.Health}}", "control-plane-1")).toBe("healthy");
    }, patient);
  });

  it("fails no request at all while Redis is killed and comes back", async () => {
    const pid = await stack.pidOf("redis");
    const { sent } = await underLoad(async () => process.kill(pid, "SIGKILL"));
    console.log(`kill of Redis: of ${sent.length} requests failed ${JSON.stringify(failed(sent))}`);
    expect(failed(sent)).toEqual({});
  });

  it("fails no request at all while a control plane is replaced", async () => {
    const { sent } = await underLoad(() => stack.compose("restart", "control-plane-2"));
    console.log(`restart of a control plane: of ${sent.length} requests failed ${JSON.stringify(failed(sent))}`);
    expect(failed(sent)).toEqual({});
  });
});
