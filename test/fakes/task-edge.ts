// The real edge and spine over a real ingress, in front of a scripted model server of any task.
import type { ServedModel } from "../../control-plane/catalog/served-model.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { instanceId, startDataPath } from "./data-path.ts";
import { type Edge, startEdge } from "./edge.ts";
import { apiKey, servedModel } from "./ports.ts";
import { startTaskEngine, type TaskEngine, type TaskRequest } from "./task-engine.ts";

export interface TaskEdge {
  readonly edge: Edge;
  readonly engine: TaskEngine;
  /** The one model, called `as-served` at the engine; forgets what was held before. */
  offer(change: Partial<ServedModel>): void;
  /** The engine's answer from now on. */
  json(answer: object): void;
  /** The last request that reached the engine. */
  asked(): TaskRequest;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails where it is not there.
  askedJson(): any;
  askedForm(): Promise<FormData>;
  lastHold(): Edge["budgets"]["holds"][number];
  /** What the last request cost; how its hold ended where it was not settled. */
  settled(): unknown;
  send(path: string, body: FormData): Promise<Response>;
  close(): Promise<void>;
}

/** USD 0.02 per million prompt tokens, 0.8 per million characters, 0.1 per 1000 s of audio, 0.009 per image of 20 steps. */
const rates: ServedModel["rates"] = {
  input: 20_000_000n,
  cachedInput: 20_000_000n,
  output: 0n,
  units: { characters: 800_000_000n, audio: 100_000_000n, images: 9_000_000_000_000n, imageUnit: 20n * 1024n * 1024n },
};

/** `origin`: of a real model server instead of the scripted one. */
export async function startTaskEdge(
  origin?: string,
  change: (deps: HttpDeps) => HttpDeps = (deps) => deps,
): Promise<TaskEdge> {
  const engine = await startTaskEngine();
  const path = await startDataPath(origin ?? engine.origin);
  const edge = await startEdge({
    agents: 0,
    // Links lead to the address that the client came by.
    change: (deps) => change({ ...deps, publicUrl: undefined }),
  });
  edge.routes.add(`http://127.0.0.1:${path.port}`, { instanceId });
  const asked = () => engine.requests.at(-1) as TaskRequest;
  const lastHold = () => edge.budgets.holds.at(-1) as Edge["budgets"]["holds"][number];
  return {
    edge,
    engine,
    offer: (change) => {
      edge.models.models = [servedModel({ servedName: "as-served", rates, ...change })];
      edge.budgets.holds.length = 0;
    },
    json: (answer) => engine.answer({ contentType: "application/json", pieces: [JSON.stringify(answer)] }),
    asked,
    askedJson: () => JSON.parse(asked().body.toString()),
    askedForm: () => {
      const { body, contentType } = asked();
      return new Response(new Uint8Array(body), { headers: { "content-type": contentType } }).formData();
    },
    lastHold,
    settled: () => {
      const { end } = lastHold();
      return end?.how === "settled" ? end.cost : end;
    },
    send: (at, body) => fetch(edge.url + at, { method: "POST", headers: { authorization: `Bearer ${apiKey}` }, body }),
    close: async () => {
      await edge.close();
      await path.close();
      await engine.close();
    },
  };
}

export function form(fields: Record<string, string | Blob>, names: Record<string, string> = {}): FormData {
  const made = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string") made.append(name, value);
    else made.append(name, value, names[name] ?? "file.bin");
  }
  return made;
}

/** Silence: 16 kHz mono, 16 bits. */
export function wav(seconds: number): Buffer<ArrayBuffer> {
  const data = Buffer.alloc(seconds * 32_000);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + data.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(16_000, 24);
  head.writeUInt32LE(32_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}
