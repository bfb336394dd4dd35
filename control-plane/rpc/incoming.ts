// Messages of an agent's stream, in order.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { AgentMessage__Output } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";

export type FleetStream = ServerDuplexStream<AgentMessage__Output, ControlMessage>;

export interface Incoming {
  /** Undefined when the stream ended or no message arrived in time. */
  next(limitMs?: number): Promise<AgentMessage__Output | undefined>;
  /** Stops receiving. */
  stop(): void;
}

const pauseAbove = 64;

/** Messages in order, with back-pressure on agents that send faster than the database writes. */
export function incoming(stream: FleetStream): Incoming {
  const queue: AgentMessage__Output[] = [];
  let isOver = false;
  let notify = () => {};
  const over = () => {
    isOver = true;
    notify();
  };
  stream.on("data", (message: AgentMessage__Output) => {
    queue.push(message);
    if (queue.length > pauseAbove) stream.pause();
    notify();
  });
  for (const event of ["end", "error", "close", "cancelled"]) stream.on(event, over);

  return {
    stop: over,
    async next(limitMs) {
      const deadline = limitMs === undefined ? undefined : performance.now() + limitMs;
      for (;;) {
        const message = queue.shift();
        if (message) {
          if (queue.length === pauseAbove / 2) stream.resume();
          return message;
        }
        const leftMs = deadline === undefined ? undefined : deadline - performance.now();
        if (isOver || (leftMs !== undefined && leftMs <= 0)) return undefined;
        await new Promise<void>((resolve) => {
          const timer = leftMs === undefined ? undefined : setTimeout(resolve, leftMs);
          notify = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    },
  };
}
