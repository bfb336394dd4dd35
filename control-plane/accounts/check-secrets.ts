import { type AccountSecrets, lookupOf, openApiKey, unwrapDek } from "./envelope.ts";
import { kekFile, SecretsMissing } from "./secret-files.ts";
import type { AccountStore } from "./store.ts";

/** Throws SecretsMissing when the secrets folder does not match the database's keys. */
export async function checkSecrets(
  store: Pick<AccountStore, "anySealedKey" | "kekVersions">,
  secrets: AccountSecrets,
): Promise<void> {
  const held = new Set(secrets.keks.map(({ version }) => version));
  const missing = (await store.kekVersions()).filter((version) => !held.has(version)).map(kekFile);
  if (missing.length > 0) {
    throw new SecretsMissing(
      `The database has data keys that need ${missing.join(" and ")}, which the secrets folder does not hold. Copy it from ` +
        "the machine where `stoker admin rotate-kek` was run, or put it back from a backup.",
    );
  }
  const sealed = await store.anySealedKey();
  if (!sealed) return;
  let apiKey: string;
  try {
    apiKey = openApiKey(
      unwrapDek(secrets, sealed.wrappedDek, sealed.account),
      sealed.ciphertext,
      sealed.account,
      sealed.key,
    );
  } catch {
    throw new SecretsMissing(
      "The API keys in the database were sealed with another key-encryption key: data folder and database do not belong " +
        "together. Start with the data folder (secrets/kek) that belongs to this database.",
    );
  }
  if (lookupOf(secrets, apiKey).equals(sealed.lookup)) return;
  throw new SecretsMissing(
    "The API keys in the database were made with another pepper: data folder and database do not belong together. " +
      "Start with the data folder (secrets/pepper) that belongs to this database.",
  );
}
