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
 * On an empty installation: the operator's account, its key in `keyFile` (mode 0600). Where a start was killed between the
 * two, or the file is gone, the key is opened from the database and written again.
 */
export async function makeFirstAccount(deps: FirstAccountDeps, keyFile: string | undefined): Promise<void> {
  const isEmpty = !(await deps.store.hasAccounts());
  if (keyFile === undefined) {
    if (isEmpty)
      deps.log.warn(
        "there is no account yet; set STOKER_ADMIN_KEY_FILE and start again to get the first one and its key",
      );
    return;
  }
  if (!isEmpty && (await hasText(keyFile))) return;
  // Find out that the file cannot be written before there is an account.
  await writeFileAtomically(keyFile, "");
  const made = isEmpty ? await deps.accounts.ensureFirstAccount() : undefined;
  const found = made ?? (await deps.accounts.recoverFirstKey());
  if (!found) return deps.log.warn({ keyFile }, "the key of the first account was revoked; its file stays empty");
  await writeFileAtomically(keyFile, `${found.apiKey}\n`);
  deps.log.info(
    { account: found.account, keyFile },
    made ? "first account made; its key is in the file" : "the first account's key was written to its file again",
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
