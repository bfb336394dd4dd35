// Recently used voices of accounts, in memory, so that a speech request with a model's own voice needs no database.
import type { AccountId } from "../../proto/ids.ts";
import type { Voice, VoiceStore } from "./store.ts";

export interface VoiceChanges {
  /** Subjects are accounts. */
  on(topic: "voice", handler: (subject: string) => void): void;
}

const maxAccounts = 1000;
/** Form of voice ids: such a name requires the records. */
const idForm = /^[0-9A-Za-z]{20}$/;

export function createVoiceBook(store: Pick<VoiceStore, "voices">, changes: VoiceChanges) {
  /** In order of use. The result of a read that a change overtook is not cached. */
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
      if (known.size > maxAccounts && oldest !== undefined) known.delete(oldest);
    }
    return voices;
  }

  return (account: AccountId, named: string): Voice | undefined | Promise<Voice | undefined> => {
    const among = (voices: readonly Voice[]) =>
      voices.find(({ id }) => id === named) ?? voices.find(({ name }) => name === named);
    const cached = known.get(account);
    if (cached) {
      known.delete(account);
      known.set(account, cached);
      return among(cached);
    }
    return read(account).then(among, (error: unknown) => {
      // A model's own voice also works while the database is unavailable.
      if (idForm.test(named)) throw error;
      return undefined;
    });
  };
}
