import { type OpenOptions, openGraph, tensorOf } from "./native-graph.ts";
import { SessionError, type TensorValue } from "./session.ts";

/** A graph that runs on the server's own thread. Its runs must be short: they block that thread. */
export interface NearSession {
  /** Throws SessionError. */
  run(feeds: Readonly<Record<string, TensorValue>>, outputs: readonly string[]): Promise<Record<string, TensorValue>>;
  /** Gives its memory back; may be called again. */
  close(): Promise<void>;
}

/** A small run here ends sooner than a message to another thread and back takes. Throws what the library failed with. */
export async function openNear(options: OpenOptions): Promise<NearSession> {
  const { graph } = await openGraph(options);
  let closed: Promise<void> | undefined;
  return {
    async run(feeds, outputs) {
      const given = Object.fromEntries(Object.entries(feeds).map(([name, value]) => [name, tensorOf(value)]));
      try {
        const found = await graph.run(given, outputs);
        return Object.fromEntries(
          Object.entries(found).map(([name, { type, data, dims }]) => [name, { type, data, dims } as TensorValue]),
        );
      } catch (error) {
        throw new SessionError(error instanceof Error ? error.message : String(error));
      }
    },
    close() {
      closed ??= graph.release();
      return closed;
    },
  };
}
