// Opens sessions in a thread. Sessions of one thread share its granted cores.
import { FairTurns } from "../batch/fair-turns.ts";
import { ThreadCalls } from "../threads/thread-calls.ts";
import type { OpenOptions } from "./native-graph.ts";
import { type Feeds, type Session, SessionError } from "./session.ts";
import type { SessionFunctions } from "./session-thread.ts";

export class SessionHost {
  readonly #thread = new ThreadCalls<SessionFunctions>(
    new URL("./session-thread.ts", import.meta.url),
    "of the graphs",
    ({ message }) => new SessionError(message),
  );
  /** One runs and one is ready behind it; the others wait here, where tenants take turns. */
  readonly #turns = new FairTurns(2);

  /** Throws SessionError. */
  async open(options: OpenOptions): Promise<{ readonly session: Session; readonly refused: readonly string[] }> {
    const { session: id, inputs, outputs, provider, refused } = await this.#thread.call("open", options);
    const run = (feeds: Feeds, wanted: readonly string[], keep: readonly string[]) =>
      this.#turns.run(() => this.#thread.call("run", id, feeds, wanted, keep));
    const session: Session = {
      inputs,
      outputs,
      provider,
      run: async (feeds, wanted = []) => (await run(feeds, wanted, [])).outputs,
      runKept: async (feeds, keep) => {
        const found = await run(feeds, [], outputs.map(({ name }) => name).filter(keep));
        return { given: found.outputs, kept: found.kept };
      },
      release: (refs) => {
        if (refs.length > 0)
          this.#thread.post(
            "release",
            refs.map(({ ref }) => ref),
          );
      },
      close: () => this.#thread.post("close", id),
    };
    return { session, refused };
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
