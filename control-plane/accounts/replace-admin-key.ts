import { type AccountId, randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { OperatorError } from "../service-error.ts";
import { writeFileAtomically } from "../write-file.ts";
import type { ApiTokens } from "./api-tokens.ts";
import { noRules } from "./key-rules.ts";

/** The message is for the operator. */
export class AdminKeyRefused extends OperatorError {
  override readonly name = "AdminKeyRefused";
}

/**
 * Writes a new key of `account` to `file` (mode 0600) and returns a message. The key itself is never printed, because
 * terminals keep a history. Throws AdminKeyRefused.
 */
export async function replaceAdminKey(
  deps: {
    readonly tokens: Pick<ApiTokens, "create" | "list" | "revoke">;
    readonly account: AccountId | undefined;
    readonly act: Act;
  },
  options: { readonly file: string | undefined; readonly revokesOthers: boolean },
): Promise<string> {
  const { tokens, account, act } = deps;
  const { file } = options;
  if (account === undefined)
    throw new AdminKeyRefused("This database has no operator account. Start Stoker once to create it.");
  if (file === undefined) throw new AdminKeyRefused("STOKER_ADMIN_KEY_FILE is required: the new key is written to it.");
  const name = `host-${new Date().toISOString().slice(0, 10)}-${randomId<"name">(6)}`;
  const made = await tokens.create(account, name, noRules, act);
  try {
    await writeFileAtomically(file, `${made.token}\n`);
  } catch (cause) {
    await tokens.revoke({ account }, made.key, act);
    throw new AdminKeyRefused(`${file} cannot be written (${(cause as Error).message}); no key was created.`, {
      cause,
    });
  }
  const others = (await tokens.list(account)).filter(({ key }) => key !== made.key);
  if (!options.revokesOthers) {
    const still = others.length === 0 ? "" : ` Its other keys still work: ${others.map((one) => one.name).join(", ")}.`;
    return `The account ${account} has a new key, ${name}, in ${file}.${still}`;
  }
  for (const { key } of others) await tokens.revoke({ account }, key, act);
  return `The account ${account} has a new key, ${name}, in ${file}; ${others.length} others were revoked.`;
}
