import type { Responses } from "../proto/gen/responses.ts";
import type { Api } from "./api.ts";
import { CliError, exitCode } from "./cli-error.ts";

type Named = Responses["GET /v1/admin/accounts"]["accounts"][number];

export const accountsPath = "/v1/admin/accounts";

/** Uid of the account with this uid, e-mail address or display name. Operators only. */
export async function uidOf(api: Api, name: string): Promise<string> {
  if (/^u:\w+$/.test(name)) return name;
  const query = new URLSearchParams({ query: name, limit: "200" });
  const { accounts } = await api.call<{ accounts: Named[] }>("GET", `${accountsPath}?${query}`);
  const text = name.toLowerCase();
  const found = accounts.find((one) => [one.email, one.display_name].some((value) => value.toLowerCase() === text));
  if (!found)
    throw new CliError(`Account ${name} not found. Give its uid, e-mail address or display name.`, exitCode.notFound);
  return found.uid;
}
