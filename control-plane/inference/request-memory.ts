// What requests and answers may hold of this process's memory, and how much of it they hold.
import { Counter, Gauge, type Registry } from "prom-client";
import { ByteBudget } from "./byte-budget.ts";
import { ResponseBuffer } from "./response-buffer.ts";

export interface MemorySettings {
  /** Of bodies of requests, as they came. */
  readonly bodiesBytes: number;
  /** Of answers that are kept before they are handed on. */
  readonly answersBytes: number;
}

export function createRequestMemory({ bodiesBytes, answersBytes }: MemorySettings, registry: Registry) {
  const bodies = new ByteBudget(bodiesBytes);
  const answers = new ResponseBuffer(answersBytes);
  const registers = [registry];
  new Gauge({
    name: "stoker_held_bytes",
    help: "Bodies of requests that run or wait here (bodies), and answers that are kept before they are handed on (answers)",
    labelNames: ["of"] as const,
    registers,
    collect() {
      this.set({ of: "bodies" }, bodies.heldBytes);
      this.set({ of: "answers" }, answers.heldBytes);
    },
  });
  const limit = new Gauge({
    name: "stoker_held_limit_bytes",
    help: "What stoker_held_bytes may come to: STOKER_BODY_MEMORY_MIB and STOKER_ANSWER_MEMORY_MIB",
    labelNames: ["of"] as const,
    registers,
  });
  limit.set({ of: "bodies" }, bodiesBytes);
  limit.set({ of: "answers" }, answersBytes);
  new Counter({
    name: "stoker_bodies_refused_total",
    help: "Requests refused because bodies of others held the memory for them",
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
    /** Of bodies whose requests wait for an instance: the others are for models that run. */
    waitingBytes: bodiesBytes / 2,
  };
}
