import type { Signals, Topic } from "./port.ts";

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
