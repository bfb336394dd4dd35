// Members of the organization that is shown; in one's own account, the person's organizations.
import { Group, MultiSelect, Select, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { mayDo, useVisitor } from "../../app/visitor.ts";
import { text } from "../../text/members.ts";
import { Act } from "../../ui/act.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { projectsPath } from "./projects.tsx";

type Organizations = Responses["GET /v1/organizations"];
type Own = Organizations["organizations"][number];
type Members = Responses["GET /v1/members"];
type Member = Members["members"][number];
type Invitations = Responses["GET /v1/invitations"];
type Invitation = Invitations["invitations"][number];
type CreatedInvitation = Responses["POST /v1/invitations"];

const membersPath = "/v1/members";
const invitationsPath = "/v1/invitations";
const organizationsPath = "/v1/organizations";

export function Organization(): ReactNode {
  const { me } = useVisitor();
  return me.is_team_account ? <MembersPage /> : <OwnOrganizations />;
}

function MembersPage(): ReactNode {
  const visitor = useVisitor();
  const members = useGet<Members>(membersPath);
  return (
    <Page
      title={text.title}
      about={text.about}
      actions={
        <Group gap="xs">
          <Invite />
          <AddService />
        </Group>
      }
    >
      <Stack gap="lg">
        <Loaded query={members}>
          {({ members: rows }) => (
            <DataTable name="members" rows={rows} columns={memberColumns} keyOf={({ id }) => id} empty={text.none} />
          )}
        </Loaded>
        {mayDo(visitor, "manageMembers") && !visitor.operator && <InvitationList />}
      </Stack>
    </Page>
  );
}

const memberColumns: readonly Column<Member>[] = [
  {
    name: text.name,
    value: ({ name }) => name,
    show: ({ name, email, source }) => (
      <>
        <Text size="sm" fw={600}>
          {name}
        </Text>
        <Text size="xs" c="dimmed">
          {email ?? text.serviceAccount}
          {source === "provider" && `, ${text.byProvider}`}
        </Text>
      </>
    ),
  },
  { name: text.role, value: ({ role }) => role },
  { name: text.since, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  actionsColumn<Member>((one) => <MemberActions of={one} />),
];

function MemberActions({ of: one }: { of: Member }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const navigate = useNavigate();
  const { me, permissions, switchTo } = useVisitor();
  const path = `${membersPath}/${encodeURIComponent(one.id)}`;
  if (permissions?.member_id === one.id)
    return (
      <Act
        label={text.leave}
        needs="leave"
        confirm={{ title: text.leaveTitle(me.team_display_name ?? me.display_name), body: text.leaveBody }}
        done={text.left}
        onAct={async () => {
          await api.call("DELETE", path);
          await switchTo(undefined);
          await navigate({ to: "/" as never });
        }}
      />
    );
  return (
    <Group gap="xs">
      <Dialog label={text.change} title={text.changeTitle(one.name)}>
        {(close) => (
          <Form
            act={text.change}
            done={text.changed}
            onSend={async ({ role, projects = "" }) => {
              await api.call("PATCH", path, { role, project_ids: idsIn(projects) });
              await refresh(membersPath);
              close();
            }}
          >
            <RoleSelect role={one.role} isOwnerOffered={one.type === "person"} />
            <ProjectsSelect chosen={one.project_ids} />
          </Form>
        )}
      </Dialog>
      <Act
        label={text.remove}
        color="red"
        variant="light"
        command={`stoker member delete ${one.id}`}
        confirm={{ title: text.removeTitle(one.name), body: text.removeBody }}
        done={text.removed}
        onAct={async () => {
          await api.call("DELETE", path);
          await refresh(membersPath);
        }}
      />
    </Group>
  );
}

function RoleSelect({ role = "developer", isOwnerOffered }: { role?: string; isOwnerOffered: boolean }): ReactNode {
  const data = Object.entries(text.roles)
    .filter(([value]) => isOwnerOffered || value !== "owner")
    .map(([value, label]) => ({ value, label }));
  return <Select name="role" label={text.role} data={data} defaultValue={role} allowDeselect={false} required />;
}

const idsIn = (projects: string): string[] => projects.split(",").filter((id) => id !== "");

/** Nothing for an organization without projects. */
function ProjectsSelect({ chosen = [] }: { chosen?: string[] }): ReactNode {
  const { data } = useGet<Responses["GET /v1/projects"]>(projectsPath);
  if (!data || data.projects.length === 0) return null;
  return (
    <MultiSelect
      name="projects"
      label={text.projects}
      description={text.projectsHint}
      data={data.projects.map(({ id, name }) => ({ value: id, label: name }))}
      defaultValue={chosen}
      maxValues={20}
    />
  );
}

function AddService(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Dialog label={text.addService} size="sm">
      {(close) => (
        <Form
          act={text.addService}
          done={text.serviceAdded}
          onSend={async ({ name, role }) => {
            await api.call("POST", "/v1/service-accounts", { name, role });
            await refresh(membersPath);
            close();
          }}
        >
          <TextInput name="name" label={text.name} description={text.serviceHint} maxLength={64} required />
          <RoleSelect isOwnerOffered={false} />
        </Form>
      )}
    </Dialog>
  );
}

function Invite(): ReactNode {
  return (
    <Dialog label={text.invite} variant="filled" size="sm">
      {(close) => <InviteForm onDone={close} />}
    </Dialog>
  );
}

function InviteForm({ onDone }: { onDone: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [made, setMade] = useState<CreatedInvitation | undefined>(undefined);
  if (made)
    return (
      <Stack gap="md">
        <Text size="sm">{text.linkTitle}</Text>
        <Command value={made.url} />
        {made.mailed && made.email !== null && <Text size="sm">{text.mailed(made.email)}</Text>}
        <Group justify="flex-end">
          <Act label={text.close} isReading onAct={async () => onDone()} />
        </Group>
      </Stack>
    );
  return (
    <Form
      act={text.invite}
      onSend={async ({ role, email = "", projects = "" }) => {
        const to = email.trim() === "" ? {} : { email: email.trim() };
        const body = { role, ...to, project_ids: idsIn(projects) };
        setMade(await api.call<CreatedInvitation>("POST", invitationsPath, body));
        await refresh(invitationsPath);
      }}
    >
      <TextInput name="email" type="email" label={text.email} description={text.emailHint} maxLength={320} />
      <RoleSelect isOwnerOffered />
      <ProjectsSelect />
    </Form>
  );
}

function InvitationList(): ReactNode {
  const invitations = useGet<Invitations>(invitationsPath);
  return (
    <Section title={text.invitations}>
      <Loaded query={invitations}>
        {({ invitations: rows }) => (
          <DataTable
            name="invitations"
            rows={rows}
            columns={invitationColumns}
            keyOf={({ id }) => id}
            empty={text.noInvitations}
          />
        )}
      </Loaded>
    </Section>
  );
}

const invitationColumns: readonly Column<Invitation>[] = [
  { name: text.email, value: ({ email }) => email ?? text.anybody },
  { name: text.role, value: ({ role }) => role },
  { name: text.expires, value: (one) => one.expires_at, show: (one) => <Ago at={one.expires_at} /> },
  actionsColumn<Invitation>((one) => <Withdraw of={one} />),
];

function Withdraw({ of: { id } }: { of: Invitation }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.withdraw}
      done={text.withdrawn}
      onAct={async () => {
        await api.call("DELETE", `${invitationsPath}/${encodeURIComponent(id)}`);
        await refresh(invitationsPath);
      }}
    />
  );
}

function OwnOrganizations(): ReactNode {
  const api = useApi();
  const { switchTo } = useVisitor();
  const organizations = useGet<Organizations>(organizationsPath);
  const create = (
    <Dialog label={text.create} variant="filled" size="sm">
      {() => (
        <Form
          act={text.create}
          done={text.created}
          onSend={async ({ name }) => {
            const { uid } = await api.call<Own>("POST", organizationsPath, { display_name: name });
            await switchTo(uid);
          }}
        >
          <TextInput name="name" label={text.name} description={text.nameHint} maxLength={39} required />
        </Form>
      )}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.aboutOwn} actions={create}>
      <Loaded query={organizations}>
        {({ organizations: rows }) => (
          <DataTable
            name="organizations"
            rows={rows}
            columns={ownColumns}
            keyOf={({ uid }) => uid}
            empty={text.noOrganizations}
          />
        )}
      </Loaded>
    </Page>
  );
}

const ownColumns: readonly Column<Own>[] = [
  { name: text.name, value: (one) => one.display_name },
  { name: text.role, value: ({ role }) => role },
  actionsColumn<Own>((one) => <Open of={one} />),
];

function Open({ of: { uid } }: { of: Own }): ReactNode {
  const { switchTo } = useVisitor();
  return <Act label={text.open} isReading onAct={() => switchTo(uid)} />;
}
