// A thread that holds sessions: opens graphs, runs them one after the other, sends the outputs back without a copy.
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { moved, serveCalls } from "../threads/thread-calls.ts";
import { type OpenOptions, openGraph, tensorOf } from "./native-graph.ts";
import type { Feeds, TensorRef, TensorValue } from "./session.ts";

export type SessionFunctions = typeof functions;

const sessions = new Map<number, InferenceSession>();
const held = new Map<number, Tensor>();
let lastSession = 0;
let lastRef = 0;

const functions = {
  async open(options: OpenOptions) {
    const { graph, ...opened } = await openGraph(options);
    lastSession += 1;
    sessions.set(lastSession, graph);
    return { ...opened, session: lastSession };
  },

  /** `outputs`: empty: all. `keep`: names of those that stay here. */
  async run(session: number, feeds: Feeds, outputs: readonly string[], keep: readonly string[]) {
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
    return moved(answer, [...buffers]);
  },

  release(refs: readonly number[]): void {
    for (const ref of refs) {
      held.get(ref)?.dispose();
      held.delete(ref);
    }
  },

  async close(session: number): Promise<void> {
    const closed = sessions.get(session);
    sessions.delete(session);
    await closed?.release();
  },
};

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

function isHeld(buffer: ArrayBuffer): boolean {
  for (const tensor of held.values()) if ((tensor.data as TensorValue["data"]).buffer === buffer) return true;
  return false;
}

serveCalls(functions);
