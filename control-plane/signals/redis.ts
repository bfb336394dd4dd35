// Replicas meet on Redis channels. Nothing is stored there: a flush loses nothing, and after a restart of Redis everybody
// subscribes again by itself. INVARIANT: whatever Redis does, `publish` costs no wait and little memory.
import { Redis } from "ioredis";
import type { Logger } from "pino";
import { type Signals, type Topic, topics } from "./port.ts";

export interface RedisSignalsDeps {
  readonly url: string;
  /** Of this replica; without a space. */
  readonly id: string;
  /** The same at all replicas of one installation and at no other: channels are not kept apart by database numbers. */
  readonly installation: string;
  readonly log: Logger;
}

/** Messages that Redis has not yet taken; more are dropped. */
const mostPending = 64;

/** Connects in the background, and again whenever the connection is lost. */
export function createRedisSignals({ url, id, installation, log }: RedisSignalsDeps): Signals {
  const options = {
    // What is said while Redis is away is old news when it is back.
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
  let isAway = false;
  let isClosed = false;

  const away = (error: unknown) => {
    if (isClosed || isAway) return;
    isAway = true;
    log.warn(
      { err: error },
      "Redis cannot be reached: rate limits are counted by each replica for itself until it can",
    );
  };
  const isConnected = () => isSubscribed && publisher.status === "ready";
  const back = () => {
    if (!isAway || !isConnected()) return;
    log.info("Redis is back");
    isAway = false;
  };
  publisher.on("error", away);
  subscriber.on("error", away);
  // A server that closes politely is away without an error.
  publisher.on("close", () => away(new Error("the connection to Redis ended")));
  subscriber.on("close", () => {
    isSubscribed = false;
    away(new Error("the connection to Redis ended"));
  });
  publisher.on("ready", back);
  subscriber.on("ready", () => {
    subscriber.subscribe(...topicOf.keys()).then(
      () => {
        isSubscribed = true;
        back();
        // A connection that cannot subscribe is of no use: a new one is made.
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
      if (isClosed || publisher.status !== "ready" || pending >= mostPending) return;
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
