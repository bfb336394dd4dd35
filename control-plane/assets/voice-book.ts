// The voices of accounts that spoke lately, in memory: a speech request asks no database for a voice that is not its own.
import type { AccountId } from "../../proto/ids.ts";
import type { Voice, VoiceStore } from "./store.ts";

export interface VoiceChanges {
  /** Subjects are accounts. */
  on(topic: "voice", handler: (subject: string) => void): void;
}

const mostAccounts = 1000;
/** As long as ids of voices are: with such a name the records must be asked. */
const idForm = /^[0-9A-Za-z]{20}$/;

export function createVoiceBook(store: Pick<VoiceStore, "voices">, changes: VoiceChanges) {
  /** In order of use. A reading that a change overtook is answered, and not kept. */
  const known = new Map<string, readonly Voice[]>();
  let readings = 0;
  changes.on("voice", (account) => {
    readings += 1;
    known.delete(account);
  });

  async function read(account: AccountId): Promise<readonly Voice[]> {
    const reading = readings;
    const voices = await store.voices(account);
    if (reading === readings) {
      known.set(account, voices);
      const [oldest] = known.keys();
      if (known.size > mostAccounts && oldest !== undefined) known.delete(oldest);
    }
    return voices;
  }

  return (account: AccountId, named: string): Voice | undefined | Promise<Voice | undefined> => {
    const among = (voices: readonly Voice[]) =>
      voices.find(({ id }) => id === named) ?? voices.find(({ name }) => name === named);
    const there = known.get(account);
    if (there) {
      known.delete(account);
      known.set(account, there);
      return among(there);
    }
    return read(account).then(among, (error: unknown) => {
      // A voice that comes with a model is spoken also while the records are away.
      if (idForm.test(named)) throw error;
      return undefined;
    });
  };
}
