// Workload identities of the account: which tokens of other platforms are exchanged for keys.
import { NumberInput, Select, SimpleGrid, Text, Textarea, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import { pairsIn } from "../../domain/pairs.ts";
import { text } from "../../text/workloads.ts";
import { Act } from "../../ui/act.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { projectsPath } from "./projects.tsx";

type List = Responses["GET /v1/workload-identities"];
type Workload = List["workload_identities"][number];

const path = "/v1/workload-identities";

export function WorkloadIdentities(): ReactNode {
  const workloads = useGet<List>(path);
  return (
    <Page title={text.title} about={text.about} actions={<Create />}>
      <Loaded query={workloads}>
        {({ workload_identities: rows }) => (
          <DataTable
            name="workload-identities"
            rows={rows}
            columns={columns}
            keyOf={({ id }) => id}
            empty={text.empty}
          />
        )}
      </Loaded>
      <Command value="stoker workload-identity create ci --issuer URL --audience A --subject S" />
    </Page>
  );
}

const columns: readonly Column<Workload>[] = [
  {
    name: text.name,
    value: ({ name }) => name,
    show: ({ name, id }) => (
      <>
        <Text size="sm" fw={600}>
          {name}
        </Text>
        <Text size="xs" c="dimmed" className="verbatim">
          {id}
        </Text>
      </>
    ),
  },
  {
    name: text.subject,
    value: ({ subject }) => subject,
    show: ({ subject, issuer }) => (
      <>
        <Text size="sm" className="verbatim">
          {subject}
        </Text>
        <Text size="xs" c="dimmed" className="verbatim">
          {issuer}
        </Text>
      </>
    ),
  },
  { name: text.role, value: ({ role }) => role },
  {
    name: text.lastUsed,
    value: (one) => one.last_used_at,
    show: (one) => (one.last_used_at === null ? text.never : <Ago at={one.last_used_at} />),
  },
  { name: text.life, value: ({ life_seconds: seconds }) => seconds / 60, isMinor: true },
  actionsColumn<Workload>((one) => <Remove of={one} />),
];

function Remove({ of: one }: { of: Workload }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.remove}
      color="red"
      variant="light"
      command={`stoker workload-identity delete ${one.id}`}
      confirm={{ title: text.removeTitle(one.name), body: text.removeBody }}
      done={text.removed}
      onAct={async () => {
        await api.call("DELETE", `${path}/${encodeURIComponent(one.id)}`);
        await refresh(path);
      }}
    />
  );
}

function Create(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Dialog label={text.create} variant="filled" width="xl">
      {(close) => (
        <Form
          act={text.create}
          done={text.created}
          onSend={async (fields) => {
            await api.call("POST", path, ruleIn(fields));
            await refresh(path);
            close();
          }}
        >
          <RuleFields />
        </Form>
      )}
    </Dialog>
  );
}

function RuleFields(): ReactNode {
  const { me } = useVisitor();
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          label={text.name}
          description={text.nameHint}
          name="name"
          maxLength={64}
          pattern="[a-zA-Z0-9_\-]+"
          required
          data-autofocus
        />
        <TextInput
          label={text.issuer}
          description={text.issuerHint}
          name="issuer"
          type="url"
          placeholder="https://"
          maxLength={512}
          required
        />
        <TextInput
          label={text.audience}
          description={text.audienceHint}
          name="audience"
          defaultValue={location.origin}
          maxLength={512}
          required
        />
        <TextInput label={text.subject} description={text.subjectHint} name="subject" maxLength={512} required />
        <Select
          label={text.role}
          name="role"
          data={["inference", "read", "admin"]}
          defaultValue="inference"
          allowDeselect={false}
        />
        <NumberInput label={text.life} name="life" defaultValue={15} min={1} max={60} required />
        {me.is_team_account && <ServiceAccounts />}
        <ProjectChoice />
      </SimpleGrid>
      <TextInput label={text.models} description={text.modelsHint} name="models" />
      <Textarea label={text.claims} description={text.claimsHint} name="claims" autosize minRows={2} />
    </>
  );
}

function ServiceAccounts(): ReactNode {
  const { data } = useGet<Responses["GET /v1/members"]>("/v1/members");
  const services = data?.members.filter(({ type }) => type === "service_account") ?? [];
  return (
    <Select
      label={text.member}
      description={text.memberHint}
      name="member"
      data={[{ value: "", label: text.yourself }, ...services.map(({ id, name }) => ({ value: id, label: name }))]}
      defaultValue=""
      allowDeselect={false}
    />
  );
}

/** Nothing for an account without projects. */
function ProjectChoice(): ReactNode {
  const { data } = useGet<Responses["GET /v1/projects"]>(projectsPath);
  if (!data || data.projects.length === 0) return null;
  return (
    <Select
      label={text.project}
      description={text.projectHint}
      name="project"
      data={[
        { value: "", label: text.noProject },
        ...data.projects.map(({ id, name }) => ({ value: id, label: name })),
      ]}
      defaultValue=""
      allowDeselect={false}
    />
  );
}

/** Throws for a line that is no claim with a value. */
function ruleIn(fields: Fields) {
  const given = (name: string) => fields[name]?.trim() ?? "";
  const claims = pairsIn(given("claims"), "first");
  const wrong = claims.find((pair) => pair.includes(""));
  if (wrong) throw new Error(text.badClaim(wrong.join(" = ")));
  const models = given("models")
    .split(",")
    .map((model) => model.trim())
    .filter((model) => model !== "");
  return {
    name: given("name"),
    issuer: given("issuer"),
    audience: given("audience"),
    subject: given("subject"),
    claims: Object.fromEntries(claims),
    role: given("role"),
    allowed_models: models.length === 0 ? null : models,
    life_seconds: Number(given("life")) * 60,
    member_id: given("member") || null,
    project_id: given("project") || null,
  };
}
