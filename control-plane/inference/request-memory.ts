// Memory budgets of request bodies and buffered responses, and their metrics.
import { Counter, Gauge, type Registry } from "prom-client";
import { ByteBudget } from "./byte-budget.ts";
import { ResponseBuffer } from "./response-buffer.ts";

export interface MemorySettings {
  /** Budget for received bodies. */
  readonly bodiesBytes: number;
  /** Budget for buffered responses. */
  readonly answersBytes: number;
}

export function createRequestMemory({ bodiesBytes, answersBytes }: MemorySettings, registry: Registry) {
  const bodies = new ByteBudget(bodiesBytes);
  const answers = new ResponseBuffer(answersBytes);
  const registers = [registry];
  new Gauge({
    name: "stoker_held_bytes",
    help: "Bytes of running and waiting request bodies (bodies) and of buffered responses (answers)",
    labelNames: ["of"] as const,
    registers,
    collect() {
      this.set({ of: "bodies" }, bodies.heldBytes);
      this.set({ of: "answers" }, answers.heldBytes);
    },
  });
  const limit = new Gauge({
    name: "stoker_held_limit_bytes",
    help: "Limits of stoker_held_bytes: STOKER_BODY_MEMORY_MIB and STOKER_ANSWER_MEMORY_MIB",
    labelNames: ["of"] as const,
    registers,
  });
  limit.set({ of: "bodies" }, bodiesBytes);
  limit.set({ of: "answers" }, answersBytes);
  new Counter({
    name: "stoker_bodies_refused_total",
    help: "Requests refused because the memory budget of bodies was used up",
    registers,
    collect() {
      this.reset();
      this.inc(bodies.refusals);
    },
  });
  return {
    bodies,
    answers,
    hasCapacity: () => answers.hasCapacity,
    /** Budget for bodies that wait for an instance: the rest is for models that run. */
    waitingBytes: bodiesBytes / 2,
  };
}
