import type { Api } from "./api.ts";
import { CliError, exitCode } from "./cli-error.ts";

interface Named {
  readonly uid: string;
  readonly email: string;
  readonly display_name: string;
}

export const accountsPath = "/v1/admin/accounts";

/** A person knows an address or a name; the API wants the uid. Operators only. */
export async function uidOf(api: Api, name: string): Promise<string> {
  if (/^u:\w+$/.test(name)) return name;
  const query = new URLSearchParams({ query: name, limit: "200" });
  const { accounts } = await api.call<{ accounts: Named[] }>("GET", `${accountsPath}?${query}`);
  const text = name.toLowerCase();
  const found = accounts.find((one) => [one.email, one.display_name].some((word) => word.toLowerCase() === text));
  if (!found)
    throw new CliError(`There is no account ${name}; give its uid, e-mail address or display name.`, exitCode.notFound);
  return found.uid;
}
