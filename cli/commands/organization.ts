// Organizations of the user, their members, and invitations.
import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { collect } from "../option-values.ts";
import { utcMinute } from "../terminal.ts";

type Organizations = Responses["GET /v1/organizations"];
type Organization = Organizations["organizations"][number];
type Members = Responses["GET /v1/members"];
type Member = Members["members"][number];
type Invitations = Responses["GET /v1/invitations"];
type CreatedInvitation = Responses["POST /v1/invitations"];

const roles = ["owner", "admin", "developer", "billing", "viewer"];
const role = (text: string) => new Option("--role <role>", text).choices(roles).makeOptionMandatory();
const memberPath = (id: string) => `/v1/members/${encodeURIComponent(id)}`;
const memberText = ({ name, id, role: is, project_ids: projects }: Member) =>
  `${name} (${id}): ${is}${projects.length > 0 ? `, keys in ${projects.join(", ")}` : ""}`;

interface MemberFlags {
  readonly role?: string;
  readonly project?: string[];
  readonly anyProject?: boolean;
}

export function addOrganization(program: Command): void {
  const group = program.command("organization").description("organizations that you are a member of");
  group
    .command("list")
    .description("list your organizations; `stoker login` gives a profile a key of one of them")
    .example("stoker organization list")
    .run(async (terminal) => {
      const { organizations } = await terminal.api.call<Organizations>("GET", "/v1/organizations");
      terminal.rows(organizations, { ID: "uid", NAME: "display_name", ROLE: "role" });
    });
  group
    .command("create <name>")
    .description("create an organization, whose owner you are")
    .example("stoker organization create acme")
    .run(async (terminal, name: string) => {
      const body = { display_name: name };
      const created = await terminal.api.call<Organization>("POST", "/v1/organizations", body);
      terminal.show(created, ({ display_name, uid }) => `Created ${display_name} (${uid})`);
      terminal.progress("To act in it, choose it in `stoker login --profile NAME`, or in the header of the console.");
    });
}

export function addMember(program: Command): void {
  const group = program.command("member").description("people and service accounts of the organization of this key");
  group
    .command("list")
    .description("list the members of the organization")
    .example("stoker member list")
    .run(async (terminal) => {
      const { members } = await terminal.api.call<Members>("GET", "/v1/members");
      terminal.rows(
        members,
        { ID: "id", NAME: "name", ROLE: "role", "E-MAIL": ({ email }) => email ?? "service account" },
        { wide: { SINCE: ({ created_at }) => utcMinute(created_at), SOURCE: "source" } },
      );
    });
  group
    .command("create <name>")
    .description("create a service account; `stoker token create --member ID` creates its keys")
    .addOption(role("role of the service account"))
    .example("stoker member create nightly --role developer")
    .run(async (terminal, name: string, flags: { role: string }) => {
      const body = { name, role: flags.role };
      terminal.show(await terminal.api.call<Member>("POST", "/v1/service-accounts", body), memberText);
    });
  group
    .command("update <id>")
    .description("change the role of a member, or the projects to which their new keys belong")
    .addOption(new Option("--role <role>", "new role; it counts at once for their keys").choices(roles))
    .option("--project <id>", "project of their new keys, the default first; repeatable", collect)
    .option("--any-project", "their new keys may belong to any project, or none")
    .example("stoker member update member-ada --role viewer")
    .run(async (terminal, id: string, { role: newRole, project, anyProject }: MemberFlags) => {
      const projects = anyProject ? [] : project;
      const body = { ...(newRole && { role: newRole }), ...(projects && { project_ids: projects }) };
      terminal.show(await terminal.api.call<Member>("PATCH", memberPath(id), body), memberText);
    });
  group
    .command("delete <id>")
    .description("remove a member, or leave the organization: revokes their keys")
    .example("stoker member delete member-ada")
    .confirm(async ({ api }, id: string) => {
      const { name } = await api.call<Member>("GET", memberPath(id));
      return `Remove ${name} from the organization and revoke their keys?`;
    })
    .run(async (terminal, id: string) => {
      const removed = await terminal.api.call<Member>("DELETE", memberPath(id));
      terminal.show(removed, ({ name }) => `Removed ${name} and revoked their keys`);
    });
}

export function addInvitation(program: Command): void {
  const group = program.command("invitation").description("invitations to the organization of this key");
  group
    .command("create")
    .description("invite a person by a link, which is mailed as well if the server sends mails")
    .addOption(role("role of the person"))
    .option("--email <address>", "only the person with this verified address can accept it")
    .option("--project <id>", "project of their keys, the default first; repeatable", collect)
    .example("stoker invitation create --role developer --email ada@example.com")
    .run(async (terminal, { project, ...flags }: { role: string; email?: string; project?: string[] }) => {
      const body = { ...flags, ...(project && { project_ids: project }) };
      const made = await terminal.api.call<CreatedInvitation>("POST", "/v1/invitations", body);
      terminal.show(made, ({ url }) => url);
      const mailed = made.mailed ? ` Mailed to ${made.email}.` : "";
      terminal.progress(`${mailed} The link is valid until ${utcMinute(made.expires_at)} and can be used once.`.trim());
    });
  group
    .command("list")
    .description("list invitations that nobody has accepted yet")
    .example("stoker invitation list")
    .run(async (terminal) => {
      const { invitations } = await terminal.api.call<Invitations>("GET", "/v1/invitations");
      terminal.rows(
        invitations,
        {
          ID: "id",
          ROLE: "role",
          FOR: ({ email }) => email ?? "whoever has the link",
          EXPIRES: ({ expires_at }) => utcMinute(expires_at),
        },
        { empty: "No invitations.", wide: { PROJECTS: ({ project_ids }) => project_ids.join(", ") } },
      );
    });
  group
    .command("delete <id>")
    .description("withdraw an invitation: its link ends")
    .example("stoker invitation delete 3fA9c2Kd")
    .confirm(async (_terminal, id: string) => `Withdraw the invitation ${id}, so that its link ends?`)
    .run(async (terminal, id: string) => {
      await terminal.api.call("DELETE", `/v1/invitations/${encodeURIComponent(id)}`);
      terminal.show({ id }, () => `Withdrew the invitation ${id}`);
    });
}
