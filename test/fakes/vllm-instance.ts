// One instance of a real vLLM that a local agent runs, behind the real edge and spine.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import type { ServedModel } from "../../control-plane/catalog/served-model.ts";
import type { FormatSkill } from "../../proto/api-formats.ts";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { type Edge, startEdge } from "./edge.ts";
import { type LocalAgent, makeLocalAgent } from "./local-agent.ts";
import { servedModel } from "./ports.ts";

export const patient = { timeout: 280_000, interval: 500 };
/** A start takes a minute on two cores that do nothing else, and ten on busy ones. */
export const startLimitMs = 1_200_000;
const skills: readonly FormatSkill[] = ["structured_outputs", "continuous_usage"];
const gib = 1024 ** 3;
export const question = [{ role: "user", content: "Count from one to five." }];

interface RequestLine {
  readonly time: number;
  readonly msg: string;
  readonly requestId: string;
  readonly outcome: string;
  readonly source: string;
  readonly endReason: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: replies are asserted field by field.
  readonly body: any;
}

export interface VllmInstance {
  readonly agent: LocalAgent;
  readonly edge: Edge;
  readonly spec: InstanceSpec;
  start(specs: readonly InstanceSpec[], env: Readonly<Record<string, string>>, tombstones?: readonly string[]): void;
  /** Resolves when the agents so far have seen it become ready so many times. */
  isReady(times: number): Promise<void>;
  /** The data path of a new agent has another port and key. */
  connect(): void;
  /** Name under which the engine serves `org/model`. */
  serve(servedName: string, change?: Partial<ServedModel>): void;
  post(path: string, body: object): Promise<Reply>;
  chat(body: object): Promise<Reply>;
  /** Starts a stream that ends only when the context is full. */
  endless(signal?: AbortSignal): Promise<Response>;
  lines(): readonly RequestLine[];
  /** The line of that reply's request, which may follow it. */
  lineOf(reply: Response): Promise<RequestLine>;
  metric(name: string): Promise<number>;
  close(): Promise<void>;
}

/** `weights`: folder of `safetensorsOf`. */
export async function makeVllmInstance(id: string, weights: string, change: InstanceSpec): Promise<VllmInstance> {
  const agent = makeLocalAgent();
  const edge = await startEdge({ agents: 0 });
  const post = async (path: string, body: object) => {
    const reply = await edge.post(path, { model: "org/model", ...body });
    return { status: reply.status, body: await reply.json() };
  };
  const lines = () =>
    agent
      .log()
      .split("\n")
      .filter((line) => line.includes('"msg":"request"'))
      .map((line) => JSON.parse(line) as RequestLine);
  return {
    agent,
    edge,
    spec: {
      ...agent.spec({ instanceId: id }),
      engine: "vllm",
      servedModelName: "org/served",
      weights: { localPath: weights, format: "safetensors", repo: "HuggingFaceTB/SmolLM2-135M-Instruct" },
      maxBatchSize: 2,
      contextLength: 1024,
      memoryBytes: 4 * gib,
      gpuUuids: ["cpu-host-0"],
      ...change,
    },
    start(specs, env, tombstones) {
      agent.want(specs, tombstones);
      agent.start(env);
    },
    isReady: (times) =>
      vi.waitFor(() => expect(agent.log().split('"msg":"instance ready"')).toHaveLength(times + 1), {
        ...patient,
        timeout: startLimitMs,
      }),
    connect() {
      const ticketKey = Buffer.from(readFileSync(join(agent.folder, "data/local-ticket.key"), "utf8").trim(), "base64");
      edge.routes.routes = [];
      const change = { instanceId: id as InstanceId, ticketKey, formats: new Set(skills) };
      edge.routes.add(`http://127.0.0.1:${agent.ports().ingress_port}`, change);
    },
    serve(servedName, change) {
      edge.models.models = [servedModel({ servedName, engine: "external", contextLength: 1024, ...change })];
    },
    post,
    chat: (body) => post("/v1/chat/completions", { messages: question, max_tokens: 8, temperature: 0, ...body }),
    endless: (signal) =>
      edge.post(
        "/v1/chat/completions",
        { model: "org/model", messages: question, max_tokens: 900, temperature: 0, stream: true, ignore_eos: true },
        signal && { signal },
      ),
    lines,
    lineOf: (reply) =>
      vi.waitFor(() => {
        const id = reply.headers.get("x-stoker-request-id");
        const found = lines().filter(({ requestId }) => requestId === id);
        expect(found).toHaveLength(1);
        return found[0] as RequestLine;
      }, patient),
    async metric(name) {
      const page = await (await fetch(`http://127.0.0.1:${agent.ports().metrics_port}/metrics/runtime`)).text();
      return Number(new RegExp(`^${name}\\{[^}]*\\} (\\S+)`, "m").exec(page)?.[1] ?? Number.NaN);
    },
    async close() {
      await edge.close();
      await agent.clean();
    },
  };
}
