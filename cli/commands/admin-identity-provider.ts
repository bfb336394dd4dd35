// `stoker admin identity-provider`: sign-in through OpenID Connect.
import { InvalidArgumentError, Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { collect, readInput } from "../option-values.ts";

type Provider = Responses["GET /v1/admin/identity-providers"]["providers"][number];

const path = "/v1/admin/identity-providers";
const roles = ["admin", "developer", "billing", "viewer"];

interface RuleFlags {
  readonly name?: string;
  readonly clientId?: string;
  readonly clientSecretFile?: string;
  readonly scopes?: string;
  readonly domain?: string[];
  readonly enforced?: string;
  readonly listed?: string;
  readonly trustEmail?: string;
  readonly organization?: string;
  readonly defaultRole?: string;
  readonly groupsClaim?: string;
  readonly group?: Record<string, string>;
  readonly defaultProject?: string[];
  readonly groupProject?: Record<string, string[]>;
}

/** `engineers=developer`; the role is after the last equals sign. */
function roleOfGroup(text: string, before: Record<string, string> = {}): Record<string, string> {
  const cut = text.lastIndexOf("=");
  const role = text.slice(cut + 1);
  if (cut < 1 || !roles.includes(role))
    throw new InvalidArgumentError(`Must be GROUP=ROLE with a role of ${roles.join(", ")}.`);
  return { ...before, [text.slice(0, cut)]: role };
}

/** `engineers=4kQ0bYx1Za9c4kQ0`; the project is after the last equals sign. A group may be named several times. */
function projectOfGroup(text: string, before: Record<string, string[]> = {}): Record<string, string[]> {
  if (text === "none") return {};
  const cut = text.lastIndexOf("=");
  const [group, project] = [text.slice(0, cut), text.slice(cut + 1)];
  if (cut < 1 || project === "") throw new InvalidArgumentError("Must be GROUP=PROJECT with the id of a project.");
  return { ...before, [group]: [...(before[group] ?? []), project] };
}

const yesNo = (flags: string, text: string) => new Option(`${flags} <yes|no>`, text).choices(["yes", "no"]);

/** Options of the rules, which create and update have in common. */
function withRules(command: Command): Command {
  return command
    .option("--client-secret-file <path>", "file with the client secret, - for stdin; without one the client is public")
    .option("--scopes <scopes>", 'scopes to ask for (default: "openid email profile")')
    .option("--domain <domain>", "domain of e-mail addresses that it may vouch for; repeatable", collect)
    .addOption(yesNo("--enforced", "addresses of these domains sign in through it only"))
    .addOption(yesNo("--listed", "the sign-in page shows its button to everybody"))
    .addOption(yesNo("--trust-email", "addresses without email_verified count as verified (Entra ID)"))
    .option("--organization <uid>", "organisation whose members its people are; none for none")
    .addOption(new Option("--default-role <role>", "role of people without a mapped group").choices([...roles, "none"]))
    .option("--groups-claim <claim>", 'claim that lists groups (default: "groups")')
    .option("--group <group=role>", "role of a group; repeatable", roleOfGroup)
    .option("--default-project <id>", "project of members whose groups have none; repeatable, none for none", collect)
    .option(
      "--group-project <group=project>",
      "project of a group's members; repeatable, none for none",
      projectOfGroup,
    );
}

function rulesIn(flags: RuleFlags): Record<string, unknown> {
  const isYes = (value: string | undefined) => (value === undefined ? undefined : value === "yes");
  const orNull = (value: string | undefined) => (value === "none" ? null : value);
  return {
    name: flags.name,
    client_id: flags.clientId,
    client_secret: flags.clientSecretFile && readInput(flags.clientSecretFile).toString().trim(),
    scopes: flags.scopes,
    domains: flags.domain,
    is_enforced: isYes(flags.enforced),
    is_listed: isYes(flags.listed),
    trusts_email: isYes(flags.trustEmail),
    organization: orNull(flags.organization),
    default_role: orNull(flags.defaultRole),
    groups_claim: flags.groupsClaim,
    role_of_group: flags.group,
    default_project_ids: flags.defaultProject?.filter((id) => id !== "none"),
    projects_of_group: flags.groupProject,
  };
}

const pathOf = (id: string) => `${path}/${encodeURIComponent(id)}`;
const providerText = (one: Provider) => `${one.name} (${one.id})\nredirect URI: ${one.redirect_uri}`;

export function addAdminIdentityProvider(program: Command): void {
  const group = adminGroup(program)
    .command("identity-provider")
    .description("sign-in through OpenID Connect: Okta, Entra ID, Keycloak, ...");

  group
    .command("list")
    .description("list the identity providers")
    .example("stoker admin identity-provider list")
    .run(async (terminal) => {
      const { providers } = await terminal.api.call<{ providers: Provider[] }>("GET", path);
      terminal.rows(
        providers,
        {
          ID: "id",
          NAME: "name",
          DOMAINS: ({ domains }) => domains.join(", "),
          ENFORCED: ({ is_enforced: isEnforced }) => (isEnforced ? "yes" : "no"),
          ISSUER: "issuer",
        },
        { wide: { CLIENT: "client_id", ORGANIZATION: ({ organization }) => organization ?? "" } },
      );
    });

  group
    .command("get <id>")
    .alias("show")
    .description("show an identity provider with the redirect URI to register there")
    .example("stoker admin identity-provider get 4kQ0bYx1Za9c")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Provider>("GET", pathOf(id)), providerText);
    });

  withRules(
    group
      .command("create <name>")
      .description("add an identity provider; register its redirect URI there")
      .example("stoker admin identity-provider create Okta --issuer URL --client-id ID")
      .requiredOption("--issuer <url>", "issuer; never changes")
      .requiredOption("--client-id <id>", "client id at the provider"),
  ).run(async (terminal, name: string, flags: RuleFlags & { issuer: string }) => {
    const body = { ...rulesIn(flags), name, issuer: flags.issuer };
    terminal.show(await terminal.api.call<Provider>("POST", path, body), providerText);
  });

  withRules(
    group
      .command("update <id>")
      .alias("set")
      .description("change an identity provider; omitted options stay, domains and groups are replaced")
      .example("stoker admin identity-provider update 4kQ0bYx1Za9c --enforced yes")
      .option("--name <name>", "name on the button")
      .option("--client-id <id>", "client id at the provider"),
  ).run(async (terminal, id: string, flags: RuleFlags) => {
    terminal.show(await terminal.api.call<Provider>("PATCH", pathOf(id), rulesIn(flags)), providerText);
  });

  const token = group
    .command("scim-token")
    .description("token by which the provider provisions people and groups (SCIM)");
  token
    .command("create <id>")
    .description("create the token, shown once; the one before ends")
    .example("stoker admin identity-provider scim-token create 4kQ0bYx1Za9c")
    .run(async (terminal, id: string) => {
      terminal.show(
        await terminal.api.call<{ token: string; url: string }>("POST", `${pathOf(id)}/scim-token`),
        ({ token: secret, url }) => `URL: ${url}\ntoken: ${secret}`,
      );
    });
  token
    .command("delete <id>")
    .description("end the token; people and groups stay")
    .example("stoker admin identity-provider scim-token delete 4kQ0bYx1Za9c")
    .confirm((_, id: string) => `End the SCIM token of ${id}? The provider can then no longer deactivate people.`)
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Provider>("DELETE", `${pathOf(id)}/scim-token`), providerText);
    });

  group
    .command("delete <id>")
    .description("delete an identity provider; accounts stay, and sign in as others do")
    .example("stoker admin identity-provider delete 4kQ0bYx1Za9c")
    .confirm((_, id: string) => `Delete the identity provider ${id}? Its people can no longer sign in through it.`)
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Provider>("DELETE", pathOf(id)), ({ name }) => `${name} deleted`);
    });
}
