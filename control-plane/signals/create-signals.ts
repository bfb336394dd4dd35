// Messages between replicas over Redis; without Redis this is the only replica.
import { createHash } from "node:crypto";
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { randomId } from "../../proto/ids.ts";
import { createSignalHub } from "./in-process.ts";
import type { Signals, Topic } from "./port.ts";
import { createRedisSignals } from "./redis.ts";

export interface SignalDeps {
  readonly redisUrl: string | undefined;
  /** Known only to the replicas of this installation; only its hash is sent. */
  readonly secret: string;
  readonly registry: Registry;
  readonly log: Logger;
}

export function createSignals({ redisUrl, secret, registry, log }: SignalDeps): Signals {
  const id = randomId(16);
  if (redisUrl === undefined) return createSignalHub().join(id);
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
