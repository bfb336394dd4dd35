// Identity providers of this server, for its operators.
import { Checkbox, Group, Select, SimpleGrid, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { pairsIn } from "../../domain/pairs.ts";
import { text } from "../../text/operator-identity.ts";
import { Act } from "../../ui/act.tsx";
import { Code, Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";

type Providers = Responses["GET /v1/admin/identity-providers"];
type Provider = Providers["providers"][number];
type CreatedToken = Responses["POST /v1/admin/identity-providers/{id}/scim-token"];

const path = "/v1/admin/identity-providers";
const pathOf = ({ id }: Provider) => `${path}/${encodeURIComponent(id)}`;
const roles = ["admin", "developer", "billing", "viewer"];

export function IdentityProviders(): ReactNode {
  const providers = useGet<Providers>(path);
  return (
    <Page title={text.title} about={text.about} actions={<ProviderDialog />}>
      <Loaded query={providers}>
        {({ providers: rows }) => (
          <DataTable
            name="identity-providers"
            rows={rows}
            columns={columns}
            keyOf={({ id }) => id}
            empty={text.empty}
          />
        )}
      </Loaded>
    </Page>
  );
}

const columns: readonly Column<Provider>[] = [
  {
    name: text.name,
    value: ({ name }) => name,
    show: ({ name, issuer, is_enforced: isEnforced }) => (
      <>
        <Group gap="xs">
          <Text size="sm" fw={600}>
            {name}
          </Text>
          {isEnforced && <Status of={text.isEnforced} />}
        </Group>
        <Text size="xs" c="dimmed" className="verbatim">
          {issuer}
        </Text>
      </>
    ),
  },
  { name: text.domains, value: ({ domains }) => domains.join(", ") },
  {
    name: text.redirect,
    value: (one) => one.redirect_uri,
    show: (one) => (
      <Text size="xs" className="verbatim">
        {one.redirect_uri}
      </Text>
    ),
  },
  actionsColumn<Provider>((one) => (
    <Group gap="xs">
      <ProviderDialog of={one} />
      <ScimDialog of={one} />
      <RemoveProvider one={one} />
    </Group>
  )),
];

function RemoveProvider({ one }: { one: Provider }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.remove}
      color="red"
      confirm={{ title: text.removeTitle(one.name), body: text.removeBody, word: one.name }}
      command={`stoker admin identity-provider delete ${one.id}`}
      done={text.removed}
      onAct={async () => {
        await api.call("DELETE", pathOf(one));
        await refresh(path);
      }}
    />
  );
}

/** Changes a provider; without one it adds one. */
function ProviderDialog({ of: one }: { of?: Provider }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const looks = one
    ? { label: text.change, title: text.changeTitle(one.name) }
    : { label: text.add, variant: "filled", leftSection: <IconPlus size={16} /> };
  return (
    <Dialog {...looks} width="xl">
      {(close) => (
        <Form
          act={one ? text.save : text.create}
          done={one ? text.saved : text.created}
          onSend={async (fields) => {
            if (one) await api.call("PATCH", pathOf(one), rulesIn(fields));
            else await api.call("POST", path, { ...rulesIn(fields), issuer: fields["issuer"]?.trim() });
            await refresh(path);
            close();
          }}
        >
          {!one && (
            <TextInput
              label={text.issuer}
              description={text.issuerHint}
              name="issuer"
              type="url"
              placeholder="https://"
              maxLength={512}
              required
            />
          )}
          <RuleFields {...(one && { of: one })} />
          {one && <Command value={`stoker admin identity-provider update ${one.id} --enforced yes`} />}
        </Form>
      )}
    </Dialog>
  );
}

function ScimDialog({ of: one }: { of: Provider }): ReactNode {
  return (
    <Dialog label={text.scim} title={text.scimTitle(one.name)}>
      {() => <ScimToken of={one} />}
    </Dialog>
  );
}

/** The token by which the provider provisions people. It is shown until the dialog closes. */
function ScimToken({ of: one }: { of: Provider }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [made, setMade] = useState<CreatedToken | undefined>(undefined);
  const command = `stoker admin identity-provider scim-token`;
  return (
    <Stack gap="md">
      <Text size="sm">{one.has_scim_token ? text.scimOn : text.scimOff}</Text>
      {made && (
        <>
          <Text size="sm">{text.scimShown}</Text>
          <Code value={made.url} label={text.scimUrl} />
          <Code value={made.token} label={text.scimToken} />
        </>
      )}
      <Group gap="xs">
        <Act
          label={one.has_scim_token ? text.scimReplace : text.scimCreate}
          command={`${command} create ${one.id}`}
          {...(one.has_scim_token && { confirm: { title: text.scimReplaceTitle, body: text.scimReplaceBody } })}
          onAct={async () => {
            setMade(await api.call<CreatedToken>("POST", `${pathOf(one)}/scim-token`));
            await refresh(path);
          }}
        />
        {one.has_scim_token && (
          <Act
            label={text.scimEnd}
            color="red"
            variant="light"
            command={`${command} delete ${one.id}`}
            confirm={{ title: text.scimEndTitle(one.name), body: text.scimEndBody }}
            done={text.scimEnded}
            onAct={async () => {
              await api.call("DELETE", `${pathOf(one)}/scim-token`);
              setMade(undefined);
              await refresh(path);
            }}
          />
        )}
      </Group>
    </Stack>
  );
}

function RuleFields({ of }: { of?: Provider }): ReactNode {
  const groups = Object.entries(of?.role_of_group ?? {}).map(([group, role]) => `${group} = ${role}`);
  const projects = Object.entries(of?.projects_of_group ?? {}).map(([group, ids]) => `${group} = ${ids.join(", ")}`);
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          label={text.name}
          description={text.nameHint}
          name="name"
          maxLength={64}
          defaultValue={of?.name ?? ""}
          required
        />
        <TextInput
          label={text.clientId}
          description=" "
          name="client_id"
          maxLength={512}
          defaultValue={of?.client_id ?? ""}
          required
        />
        <TextInput
          label={text.secret}
          description={of ? text.secretKept : text.secretHint}
          name="client_secret"
          type="password"
          autoComplete="off"
          maxLength={2048}
        />
        <TextInput
          label={text.domains}
          description={text.domainsHint}
          name="domains"
          defaultValue={of?.domains.join(", ") ?? ""}
        />
        <TextInput label={text.scopes} name="scopes" defaultValue={of?.scopes ?? "openid email profile"} required />
        <TextInput
          label={text.groupsClaim}
          name="groups_claim"
          maxLength={128}
          defaultValue={of?.groups_claim ?? "groups"}
          required
        />
        <TextInput
          label={text.organization}
          description={text.organizationHint}
          name="organization"
          maxLength={64}
          defaultValue={of?.organization ?? ""}
        />
        <Select
          label={text.defaultRole}
          description=" "
          name="default_role"
          data={[{ value: "", label: text.noRole }, ...roles]}
          defaultValue={of?.default_role ?? ""}
          allowDeselect={false}
        />
      </SimpleGrid>
      <Textarea
        label={text.groups}
        description={text.groupsHint}
        name="groups"
        autosize
        minRows={2}
        defaultValue={groups.join("\n")}
      />
      <Textarea
        label={text.projects}
        description={text.projectsHint}
        name="group_projects"
        autosize
        minRows={2}
        defaultValue={projects.join("\n")}
      />
      <TextInput
        label={text.defaultProjects}
        description={text.defaultProjectsHint}
        name="default_projects"
        defaultValue={of?.default_project_ids.join(", ") ?? ""}
      />
      <Checkbox label={text.enforced} name="is_enforced" defaultChecked={of?.is_enforced ?? false} />
      <Checkbox label={text.listed} name="is_listed" defaultChecked={of?.is_listed ?? true} />
      <Checkbox label={text.trustsEmail} name="trusts_email" defaultChecked={of?.trusts_email ?? false} />
    </>
  );
}

const listIn = (words: string): string[] => words.split(/[\s,]+/).filter((word) => word !== "");

/** Throws for a line that is no group with a role, or with projects. */
function rulesIn(fields: Fields) {
  const given = (name: string) => fields[name]?.trim() ?? "";
  const groups = pairsIn(given("groups"), "last");
  const wrong = groups.find(([, role]) => !roles.includes(role));
  if (wrong) throw new Error(text.badGroup(wrong.join(" = ")));
  const projects = pairsIn(given("group_projects"), "last").map(([group, ids]) => [group, listIn(ids)] as const);
  const empty = projects.find(([group, ids]) => group === "" || ids.length === 0);
  if (empty) throw new Error(text.badProjects(empty[0]));
  return {
    name: given("name"),
    client_id: given("client_id"),
    ...(given("client_secret") === "" ? {} : { client_secret: given("client_secret") }),
    scopes: given("scopes"),
    domains: listIn(given("domains").toLowerCase()),
    groups_claim: given("groups_claim"),
    organization: given("organization") || null,
    default_role: given("default_role") || null,
    role_of_group: Object.fromEntries(groups),
    projects_of_group: Object.fromEntries(projects),
    default_project_ids: listIn(given("default_projects")),
    is_enforced: "is_enforced" in fields,
    is_listed: "is_listed" in fields,
    trusts_email: "trusts_email" in fields,
  };
}
