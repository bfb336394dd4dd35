// Messages between replicas over Redis; without Redis only between the workers of one control plane.
import { createHash } from "node:crypto";
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { randomId } from "../../proto/ids.ts";
import type { Signals, Topic } from "./port.ts";
import { createRedisSignals } from "./redis.ts";
import { createWorkerSignals, type WorkerChannel } from "./worker-signals.ts";

interface SignalDeps {
  readonly redisUrl: string | undefined;
  /** The other workers of this control plane; undefined: none. */
  readonly worker: WorkerChannel | undefined;
  /** Known only to the replicas of this installation; only its hash is sent. */
  readonly secret: string;
  readonly registry: Registry;
  readonly log: Logger;
}

export function createSignals({ redisUrl, worker, secret, registry, log }: SignalDeps): Signals {
  const id = randomId(16);
  if (redisUrl === undefined) return worker ? createWorkerSignals(worker) : createSignalHub().join(id);
  const installation = createHash("sha256").update(`signals ${secret}`).digest("hex").slice(0, 16);
  const signals = createRedisSignals({ url: redisUrl, id, installation, log });
  new Gauge({
    name: "stoker_signals_connected",
    help: "1 while this replica receives messages of the others over Redis",
    registers: [registry],
    collect() {
      this.set(signals.isConnected ? 1 : 0);
    },
  });
  return signals;
}

/** Returns one topic in the form that its users declare. */
export function topicOf(signals: Signals, topic: Topic) {
  return {
    publish: (message: string) => signals.publish(topic, message),
    on: (handler: (message: string, from: string) => void) => signals.on(topic, handler),
  };
}

type Handler = (message: string, from: string) => void;

/** Replicas of one process join the same hub. A control plane without Redis is its hub's only member. */
export function createSignalHub(): { join(id: string): Signals } {
  const members = new Map<string, Map<Topic, Handler[]>>();
  return {
    join(id) {
      const handlers = new Map<Topic, Handler[]>();
      members.set(id, handlers);
      const isMember = () => members.get(id) === handlers;
      return {
        publish(topic, message) {
          if (!isMember()) return;
          for (const [other, theirs] of members) {
            if (other === id) continue;
            // As over a network: delivered only after the publisher has returned.
            queueMicrotask(() => {
              if (members.get(other) === theirs) for (const handler of theirs.get(topic) ?? []) handler(message, id);
            });
          }
        },
        on(topic, handler) {
          handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
        },
        get isConnected() {
          return isMember();
        },
        async close() {
          if (isMember()) members.delete(id);
        },
      };
    },
  };
}
