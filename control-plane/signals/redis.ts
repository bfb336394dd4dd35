// Replicas exchange messages on Redis channels. Nothing is stored: a flush loses nothing, and every replica resubscribes
// after a restart of Redis. INVARIANT: `publish` never waits and its memory is bounded, whatever Redis does.
import { Redis } from "ioredis";
import type { Logger } from "pino";
import { type Signals, type Topic, topics } from "./port.ts";

export interface RedisSignalsDeps {
  readonly url: string;
  /** Id of this replica, without spaces. */
  readonly id: string;
  /** The same at all replicas of one installation and unique to it: database numbers do not separate channels. */
  readonly installation: string;
  readonly log: Logger;
}

/** Messages not yet sent to Redis; more are dropped. */
const maxPending = 64;

/** Connects in the background and reconnects whenever the connection is lost. */
export function createRedisSignals({ url, id, installation, log }: RedisSignalsDeps): Signals {
  const options = {
    // Messages published while Redis is unavailable would be stale on reconnect.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResubscribe: false,
    connectTimeout: 2_000,
    commandTimeout: 2_000,
    keepAlive: 10_000,
    retryStrategy: (times: number) => Math.min(1_000, 50 * 2 ** Math.min(times, 5)),
    connectionName: "stoker",
  };
  const publisher = new Redis(url, options);
  const subscriber = new Redis(url, options);
  const handlers = new Map<Topic, ((message: string, from: string) => void)[]>();
  const channelOf = (topic: Topic) => `stoker:${installation}:${topic}`;
  const topicOf = new Map(topics.map((topic) => [channelOf(topic), topic]));
  let pending = 0;
  let isSubscribed = false;
  let isUnavailable = false;
  let isClosed = false;

  const setUnavailable = (error: unknown) => {
    if (isClosed || isUnavailable) return;
    isUnavailable = true;
    log.warn({ err: error }, "Redis unavailable: each replica counts rate limits alone until it is reachable");
  };
  const isConnected = () => isSubscribed && publisher.status === "ready";
  const back = () => {
    if (!isUnavailable || !isConnected()) return;
    log.info("Redis reachable again");
    isUnavailable = false;
  };
  publisher.on("error", setUnavailable);
  subscriber.on("error", setUnavailable);
  // A server that closes the connection cleanly raises no error.
  publisher.on("close", () => setUnavailable(new Error("connection to Redis closed")));
  subscriber.on("close", () => {
    isSubscribed = false;
    setUnavailable(new Error("connection to Redis closed"));
  });
  publisher.on("ready", back);
  subscriber.on("ready", () => {
    subscriber.subscribe(...topicOf.keys()).then(
      () => {
        isSubscribed = true;
        back();
        // Drop a connection that cannot subscribe; the client opens a new one.
      },
      () => subscriber.disconnect(true),
    );
  });
  subscriber.on("message", (channel: string, text: string) => {
    const topic = topicOf.get(channel);
    const cut = text.indexOf(" ");
    if (topic === undefined || cut < 1 || isClosed) return;
    const from = text.slice(0, cut);
    if (from === id) return;
    for (const handler of handlers.get(topic) ?? []) handler(text.slice(cut + 1), from);
  });

  return {
    publish(topic, message) {
      if (isClosed || publisher.status !== "ready" || pending >= maxPending) return;
      pending += 1;
      const done = () => {
        pending -= 1;
      };
      publisher.publish(channelOf(topic), `${id} ${message}`).then(done, done);
    },
    on(topic, handler) {
      handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
    },
    get isConnected() {
      return isConnected();
    },
    async close() {
      isClosed = true;
      publisher.disconnect();
      subscriber.disconnect();
    },
  };
}
