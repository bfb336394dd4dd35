import { readFile } from "node:fs/promises";
import type { Logger } from "pino";
import { writeFileAtomically } from "../write-file.ts";
import type { CreateAccount } from "./create-account.ts";
import type { AccountStore } from "./store.ts";

interface FirstAccountDeps {
  readonly store: Pick<AccountStore, "hasAccounts">;
  readonly accounts: Pick<CreateAccount, "ensureFirstAccount" | "recoverFirstKey">;
  readonly log: Logger;
}

/**
 * Creates the operator's account on an empty installation and writes its key to `keyFile` (mode 0600). If the file is missing, for
 * example after a killed start, writes the key from the database.
 */
export async function makeFirstAccount(deps: FirstAccountDeps, keyFile: string | undefined): Promise<void> {
  const isEmpty = !(await deps.store.hasAccounts());
  if (keyFile === undefined) {
    if (isEmpty)
      deps.log.warn("no account exists; set STOKER_ADMIN_KEY_FILE and restart to create the first one with its key");
    return;
  }
  if (!isEmpty && (await hasText(keyFile))) return;
  // Fail before the account exists if the file is not writable.
  await writeFileAtomically(keyFile, "");
  const made = isEmpty ? await deps.accounts.ensureFirstAccount() : undefined;
  const found = made ?? (await deps.accounts.recoverFirstKey());
  if (!found) return deps.log.warn({ keyFile }, "the first account's key was revoked; leaving its file empty");
  await writeFileAtomically(keyFile, `${found.apiKey}\n`);
  deps.log.info(
    { account: found.account, keyFile },
    made ? "created the first account; its key is in the file" : "wrote the first account's key to its file again",
  );
}

async function hasText(path: string): Promise<boolean> {
  try {
    return (await readFile(path, "utf8")).trim() !== "";
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
