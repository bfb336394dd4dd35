// The real vLLM as a container: started by an agent with the Docker driver from an image like the official one, adopted by the next agent,
// stopped, started again, removed. The tests build on each other: one start takes a minute on two cores.
import { execFile } from "node:child_process";
import { realpathSync } from "node:fs";
import { request } from "node:http";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createFirewall } from "../../agent/docker/firewall.ts";
import { modelRules } from "../../agent/docker/model-firewall.ts";
import { localTicket } from "../fakes/local-agent.ts";
import { makeVllmInstance, patient, question, startLimitMs, type VllmInstance } from "../fakes/vllm-instance.ts";
import { safetensorsOf, vllmProgram } from "../fakes/vllm-program.ts";
import { clear, docker, leftOf, testSubnet } from "./docker-host.ts";
import { realWeights } from "./real-weights.ts";
import { metricsPage } from "./seen-agent.ts";
import { removeVllmImage, vllmImage } from "./vllm-image.ts";

const promise = "a real vLLM as a container";
const program = vllmProgram(promise);
const image = program !== undefined ? await vllmImage(promise) : undefined;
const id = "vllmContainer001";
const gib = 1024 ** 3;

describe.runIf(image !== undefined)("vLLM in a container", () => {
  let vllm: VllmInstance;
  let node = "";
  let container = "";
  let hasFailed = false;
  const took: Record<string, number> = {};

  const environment = {
    STOKER_DRIVER: "docker",
    STOKER_RUNTIME_IMAGE: "unused",
    STOKER_VLLM_IMAGE: image ?? "",
    STOKER_CONTAINER_SUBNET: testSubnet,
    STOKER_DRAIN_MS: "8000",
  };
  const start = (env: Readonly<Record<string, string>> = {}) => vllm.start([vllm.spec], { ...environment, ...env });
  const inspect = (format: string) => docker("inspect", "--format", format, container);
  /** Signals that the engine sent to the container, and its end, in order. */
  const ending = async (since: number) => {
    const range = ["--since", String(since / 1000), "--until", String(Date.now() / 1000)];
    const filters = ["--filter", `container=${container}`, "--filter", "event=kill", "--filter", "event=die"];
    const lines = await docker("events", ...range, ...filters, "--format", "{{json .}}");
    return lines.split("\n").map((line) => {
      const { Action: action, timeNano, Actor: actor } = JSON.parse(line);
      return { action, atMs: timeNano / 1e6, signal: actor.Attributes.signal, exitCode: actor.Attributes.exitCode };
    });
  };
  /** Its last lines, by the agent's data path. */
  const log = async () => {
    const { ingress_port: port } = vllm.agent.ports();
    const headers = { "x-stoker-ticket": localTicket(`${vllm.agent.folder}/data`, id) };
    const reply = await fetch(`http://127.0.0.1:${port}/i/${id}/logs?limit=1000`, { headers });
    expect(reply.status).toBe(200);
    const { lines } = (await reply.json()) as { lines: readonly (readonly [string, string])[] };
    return lines.map(([, line]) => line);
  };

  beforeAll(async () => {
    const weights = realpathSync(await safetensorsOf(await realWeights()));
    vllm = await makeVllmInstance(id, weights, { cpus: 2, memoryBytes: 6 * gib, extraArgs: ["--dtype=bfloat16"] });
    const beganMs = performance.now();
    start();
    await vllm.isReady(1);
    took["start"] = (performance.now() - beganMs) / 1000;
    node = vllm.agent.ports().host_id;
    container = await docker("ps", "-q", "--no-trunc", "--filter", `label=stoker.instance=${id}`);
    vllm.connect();
    vllm.serve("org/served");
  }, startLimitMs + 60_000);
  afterAll(async () => {
    process.stdout.write(`vLLM in a container, in seconds: ${JSON.stringify(took)}\n`);
    await vllm?.close();
    if (node !== "") {
      await clear(node);
      await createFirewall(modelRules(node)).remove();
    }
    if (image !== undefined) await removeVllmImage(image);
  }, 300_000);

  beforeEach(({ skip, onTestFailed }) => {
    skip(hasFailed, "an earlier test of this container failed");
    onTestFailed(() => {
      hasFailed = true;
    });
  });

  it("runs as the plan says: another user, a root without writes, no way out", async () => {
    const [user, readOnly, network] = (
      await inspect("{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.NetworkMode}}")
    ).split(" ");
    expect([user, readOnly]).toEqual(["2000:0", "true"]);
    expect(await docker("network", "inspect", "--format", "{{.Internal}}", network ?? "")).toBe("true");
  });

  it("replies whole and streamed alike, billed by its own count", async () => {
    const { status, body } = await vllm.chat({});
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.usage).toMatchObject({ completion_tokens: 8 });
    const reply = await vllm.edge.post("/v1/chat/completions", {
      model: "org/model",
      messages: question,
      max_tokens: 8,
      temperature: 0,
      stream: true,
    });
    const events = (await reply.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
    const chunks = events.map((event) => JSON.parse(event.slice(6)));
    expect(chunks.map((chunk) => chunk.choices[0].delta?.content ?? "").join("")).toBe(body.choices[0].message.content);
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: body.usage.prompt_tokens, completion_tokens: 8 });
    // A line follows its reply.
    await vi.waitFor(() => expect(vllm.lines()).toHaveLength(2), patient);
    for (const line of vllm.lines())
      expect(line).toMatchObject({ source: "engine", inputTokens: body.usage.prompt_tokens, outputTokens: 8 });
  });

  it("reports the engine's figures and the container's", async () => {
    await vi.waitFor(
      async () => expect(await vllm.metric("stoker_engine_prompt_tokens_total")).toBeGreaterThan(0),
      patient,
    );
    await vi.waitFor(async () => expect(await vllm.metric("stoker_engine_requests_running")).toBe(0), patient);
    await vi.waitFor(async () => {
      const page = await metricsPage(vllm.agent);
      const memory = new RegExp(`^container_memory_working_set_bytes\\{.*instance_id="${id}"\\} (\\d+)$`, "m").exec(
        page,
      );
      expect(Number(memory?.[1])).toBeGreaterThan(gib / 2);
    }, patient);
  });

  it("has its log at the agent's data path", async () => {
    const lines = await log();
    expect(lines.some((line) => line.includes("Application startup complete"))).toBe(true);
    // It logs no prompt.
    expect(lines.every((line) => !line.includes("Count from one"))).toBe(true);
  });

  it("survives its agent and is adopted by the next one", async () => {
    const before = await inspect("{{.Id}} {{.State.StartedAt}}");
    await vllm.agent.kill("SIGKILL");
    const beganMs = performance.now();
    start({ STOKER_STOP_INSTANCES: "1" });
    await vllm.isReady(2);
    took["adoption"] = (performance.now() - beganMs) / 1000;
    expect(await inspect("{{.Id}} {{.State.StartedAt}}")).toBe(before);
    vllm.connect();
    expect((await vllm.chat({})).status).toBe(200);
  });

  it("refuses new requests, cuts and bills the running one, and only then is sent SIGTERM, at which it shuts down", async () => {
    const since = Date.now();
    const reply = await vllm.endless();
    const text = reply.text();
    const ended = vllm.agent.kill("SIGTERM");
    const refusedAtMs = await vi.waitFor(async () => {
      expect((await vllm.chat({})).status).toBe(503);
      return Date.now();
    }, patient);
    expect(await ended).toBe(0);
    took["stop"] = (Date.now() - since) / 1000;
    expect(await text).toContain('"error"');
    const cut = await vllm.lineOf(reply);
    expect(cut).toMatchObject({ endReason: "drained", source: "engine" });
    const events = await ending(since);
    const [term] = events;
    expect([term?.signal, events.at(-1)?.action]).toEqual(["15", "die"]);
    // A busy machine may take longer than the time it has, and is then killed, perhaps before this line.
    if (!events.some(({ signal }) => signal === "9")) {
      const { stdout, stderr } = await promisify(execFile)("docker", ["logs", container]);
      expect(stdout + stderr).toContain("Application shutdown complete");
    }
    expect(refusedAtMs).toBeLessThan(term?.atMs ?? 0);
    expect(cut.time).toBeLessThanOrEqual(term?.atMs ?? 0);
    expect(await inspect("{{.State.Status}} {{.State.OOMKilled}}")).toBe("exited false");
  });

  it(
    "starts again in the same container, whose log continues",
    async () => {
      const beganMs = performance.now();
      start();
      await vllm.isReady(3);
      took["second start"] = (performance.now() - beganMs) / 1000;
      const starts = (await log()).filter((line) => line.includes("Application startup complete"));
      expect(starts).toHaveLength(2);
      expect(await docker("ps", "-q", "--no-trunc", "--filter", `label=stoker.instance=${id}`)).toBe(container);
      vllm.connect();
      expect((await vllm.chat({})).status).toBe(200);
    },
    startLimitMs + 60_000,
  );

  it("is killed at the deadline while it waits for a foreign connection, and is removed without a trace", async () => {
    const address = await inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}");
    const body = JSON.stringify({
      model: "org/served",
      messages: question,
      max_tokens: 900,
      stream: true,
      ignore_eos: true,
    });
    // Nothing but the agent reaches it, and this machine.
    const open = request({
      host: address,
      port: 8000,
      path: "/v1/chat/completions",
      method: "POST",
      headers: { "content-type": "application/json" },
    });
    const closed = new Promise((resolve) => open.once("close", resolve));
    await new Promise((resolve, reject) => open.once("response", resolve).once("error", reject).end(body));
    open.on("error", () => {});
    await vllm.agent.kill("SIGTERM");
    expect(await inspect("{{.State.Status}}")).toBe("running");
    const since = Date.now();
    vllm.start([], environment, [id]);
    await vi.waitFor(async () => expect(await leftOf(node)).toEqual([]), patient);
    const events = await ending(since);
    expect(events.map(({ action, signal }) => signal ?? action)).toEqual(["15", "9", "die"]);
    expect(events.at(-1)?.exitCode).toBe("137");
    await closed;
  });
});
