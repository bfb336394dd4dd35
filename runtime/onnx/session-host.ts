// Asks the thread that holds the sessions. One thread per model server: its sessions share the granted cores.
import { FairTurns } from "../batch/fair-turns.ts";
import { ThreadCalls } from "../threads/thread-calls.ts";
import { type Feeds, type Session, SessionError, type TensorRef } from "./session.ts";
import type { Answer, Opened, OpenOptions, Question } from "./session-messages.ts";

type WithoutId<Q> = Q extends { readonly id: number } ? Omit<Q, "id"> : never;

export class SessionHost {
  readonly #calls = new ThreadCalls<Answer>(new URL("./session-thread.ts", import.meta.url), {
    purpose: "of the graphs",
    errorOf: (answer) => ("failure" in answer ? new SessionError(answer.failure) : undefined),
    failure: (message) => new SessionError(message),
  });
  /** One runs and one is ready behind it; the others wait here, where tenants take turns. */
  readonly #turns = new FairTurns(2);

  /** Throws SessionError. */
  async open(options: OpenOptions): Promise<{ readonly session: Session; readonly refused: readonly string[] }> {
    const answer = await this.#ask({ kind: "open", options });
    const { opened } = answer as Extract<Answer, { opened: Opened }>;
    const ask = async (feeds: Feeds, outputs: readonly string[], keep: readonly string[]) => {
      const question = { kind: "run", session: opened.session, feeds, outputs, keep } as const;
      const found = await this.#turns.run(() => this.#ask(question));
      return found as Extract<Answer, { kept: unknown }>;
    };
    const session: Session = {
      inputs: opened.inputs,
      outputs: opened.outputs,
      provider: opened.provider,
      run: async (feeds, outputs = []) => (await ask(feeds, outputs, [])).outputs,
      runKept: async (feeds, keep) => {
        const names = opened.outputs.map(({ name }) => name).filter(keep);
        const { outputs: given, kept } = await ask(feeds, [], names);
        return { given, kept };
      },
      release: (refs) => this.#release(refs),
      close: () => {
        this.#send({ kind: "close", session: opened.session });
      },
    };
    return { session, refused: opened.refused };
  }

  close(): Promise<void> {
    return this.#calls.close();
  }

  #ask(question: WithoutId<Question>): Promise<Answer> {
    return this.#calls.ask(question);
  }

  #release(refs: readonly TensorRef[]): void {
    if (refs.length > 0) this.#send({ kind: "release", refs: refs.map(({ ref }) => ref) });
  }

  #send(message: Question): void {
    if (!this.#calls.hasEnded) this.#calls.post(message);
  }
}
