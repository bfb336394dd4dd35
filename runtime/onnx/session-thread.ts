// A thread that holds sessions: opens graphs, runs them one after the other, sends the outputs back without a copy.
import { parentPort } from "node:worker_threads";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { openGraph, tensorOf } from "./native-graph.ts";
import type { TensorRef, TensorValue } from "./session.ts";
import type { Answer, Opened, OpenOptions, Question } from "./session-messages.ts";

const port = parentPort;
if (!port) throw new Error("session-thread.ts runs as a worker thread");

const sessions = new Map<number, InferenceSession>();
const held = new Map<number, Tensor>();
let lastSession = 0;
let lastRef = 0;
let turn: Promise<void> = Promise.resolve();

port.on("message", (question: Question) => {
  turn = turn.then(() => answer(question));
});

async function answer(question: Question): Promise<void> {
  if (question.kind === "release") {
    for (const ref of question.refs) free(ref);
    return;
  }
  if (question.kind === "close") {
    const closed = sessions.get(question.session);
    sessions.delete(question.session);
    // A failed release must not affect other requests.
    await closed?.release().catch(() => {});
    return;
  }
  const { id } = question;
  try {
    if (question.kind === "open") send({ id, opened: await open(question.options) });
    else await run(question);
  } catch (error) {
    send({ id, failure: error instanceof Error ? error.message : String(error) });
  }
}

async function open(options: OpenOptions): Promise<Opened> {
  const { graph, ...opened } = await openGraph(options);
  lastSession += 1;
  sessions.set(lastSession, graph);
  return { ...opened, session: lastSession };
}

async function run({ id, session, feeds, outputs, keep }: Extract<Question, { kind: "run" }>): Promise<void> {
  const graph = sessions.get(session);
  if (!graph) throw new Error("there is no such session");
  const given: Record<string, Tensor> = {};
  for (const [name, value] of Object.entries(feeds)) given[name] = "ref" in value ? kept(value) : tensorOf(value);
  const found = outputs.length === 0 ? await graph.run(given) : await graph.run(given, outputs);
  const answer: { outputs: Record<string, TensorValue>; kept: Record<string, TensorRef> } = { outputs: {}, kept: {} };
  const buffers = new Set<ArrayBuffer>();
  for (const [name, tensor] of Object.entries(found)) {
    if (keep.includes(name)) answer.kept[name] = hold(tensor);
    else {
      const data = tensor.data as TensorValue["data"];
      answer.outputs[name] = { type: tensor.type, data, dims: tensor.dims };
      // An output that is an input passed through belongs to its owner.
      if (data.buffer instanceof ArrayBuffer && !isHeld(data.buffer)) buffers.add(data.buffer);
    }
  }
  port?.postMessage({ id, ...answer } satisfies Answer, [...buffers]);
}

function kept({ ref }: TensorRef): Tensor {
  const tensor = held.get(ref);
  if (!tensor) throw new Error("a tensor was used after its release");
  return tensor;
}

function hold(tensor: Tensor): TensorRef {
  lastRef += 1;
  held.set(lastRef, tensor);
  return { ref: lastRef, type: tensor.type, dims: tensor.dims };
}

function free(ref: number): void {
  held.get(ref)?.dispose();
  held.delete(ref);
}

function isHeld(buffer: ArrayBuffer): boolean {
  for (const tensor of held.values()) if ((tensor.data as TensorValue["data"]).buffer === buffer) return true;
  return false;
}

function send(message: Answer): void {
  port?.postMessage(message);
}
