// Messages between the worker processes of one control plane, relayed by their parent.
import { type Signals, type Topic, topics } from "./port.ts";

/** Connection of a worker with the others. Messages are lost while it is closed. */
export interface WorkerChannel {
  /** Sends to every other worker. Never waits. */
  send(body: unknown): void;
  /** `from`: number of the worker that sent it. */
  on(handler: (body: unknown, from: number) => void): void;
  readonly isOpen: boolean;
}

interface Signal {
  readonly topic: Topic;
  readonly text: string;
}

export function createWorkerSignals(channel: WorkerChannel): Signals {
  const handlers = new Map<Topic, ((message: string, from: string) => void)[]>();
  let isClosed = false;
  channel.on((body, from) => {
    if (isClosed || !isSignal(body)) return;
    for (const handler of handlers.get(body.topic) ?? []) handler(body.text, `worker-${from}`);
  });
  return {
    publish(topic, text) {
      if (!isClosed) channel.send({ topic, text } satisfies Signal);
    },
    on(topic, handler) {
      handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
    },
    get isConnected() {
      return !isClosed && channel.isOpen;
    },
    async close() {
      isClosed = true;
    },
  };
}

function isSignal(body: unknown): body is Signal {
  const { topic, text } = body as Partial<Signal>;
  return topics.includes(topic as Topic) && typeof text === "string";
}
