import { Group, NumberInput, Text, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { text } from "../../text/projects.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type List = Responses["GET /v1/projects"];
type Project = List["projects"][number];

export const projectsPath = "/v1/projects";
const pathOf = ({ id }: Project) => `${projectsPath}/${encodeURIComponent(id)}`;

export function Projects(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const projects = useGet<List>(projectsPath);
  const create = (
    <Dialog label={text.create} variant="filled" size="sm">
      {(close) => (
        <ProjectForm
          act={text.create}
          done={text.created}
          onSend={async (body) => {
            await api.call("POST", projectsPath, body);
            await refresh(projectsPath);
            close();
          }}
        />
      )}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={create}>
      <Loaded query={projects}>
        {({ projects: rows }) => (
          <DataTable
            name="projects"
            rows={rows}
            columns={[...columns, actionsColumn<Project>((one) => <Actions of={one} />)]}
            keyOf={({ id }) => id}
            empty={text.empty}
          />
        )}
      </Loaded>
    </Page>
  );
}

const columns: readonly Column<Project>[] = [
  {
    name: text.name,
    value: ({ name }) => name,
    show: ({ name, id }) => (
      <>
        <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
          {name}
        </Text>
        <Text size="xs" c="dimmed" ff="monospace">
          {id}
        </Text>
      </>
    ),
  },
  { name: text.keys, value: (one) => one.key_count },
  { name: text.spent, value: (one) => one.spent, show: (one) => usd(one.spent) },
  {
    name: text.budget,
    value: (one) => one.monthly_limit,
    show: (one) => (one.monthly_limit === null ? text.noBudget : usd(one.monthly_limit)),
  },
  { name: text.createdAt, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} />, isMinor: true },
];

interface ProjectFormProps {
  readonly act: string;
  readonly done: string;
  /** Undefined: a new one. */
  readonly of?: Project;
  readonly onSend: (body: { readonly name: string; readonly monthly_limit: number | null }) => Promise<void>;
}

function ProjectForm({ act, done, of: one, onSend }: ProjectFormProps): ReactNode {
  const send = ({ name = "", budget = "" }: Fields) =>
    onSend({ name: name.trim(), monthly_limit: budget === "" ? null : Number(budget) });
  return (
    <Form act={act} done={done} {...(one && { needs: "changeMoney" })} onSend={send}>
      <TextInput label={text.name} name="name" defaultValue={one?.name ?? ""} maxLength={64} required data-autofocus />
      <NumberInput
        label={text.budget}
        description={text.budgetHint}
        name="budget"
        defaultValue={one?.monthly_limit ?? ""}
        min={0}
      />
    </Form>
  );
}

function Actions({ of: one }: { of: Project }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Group gap="xs" className="row-actions">
      <LinkButton to="/usage?by=project" size="xs" variant="default">
        {text.usage}
      </LinkButton>
      <Dialog label={text.change} title={text.changeTitle(one.name)} needs="changeMoney">
        {(close) => (
          <ProjectForm
            act={text.save}
            done={text.saved}
            of={one}
            onSend={async (body) => {
              await api.call("PATCH", pathOf(one), body);
              await refresh(projectsPath);
              close();
            }}
          />
        )}
      </Dialog>
      <Act
        label={text.delete}
        color="red"
        variant="light"
        command={`stoker project delete ${one.id}`}
        disabled={one.key_count > 0}
        {...(one.key_count > 0 && { why: text.hasKeys })}
        done={text.deleted}
        confirm={{ title: text.deleteTitle(one.name), body: text.deleteBody }}
        onAct={async () => {
          await api.call("DELETE", pathOf(one));
          await refresh(projectsPath);
        }}
      />
    </Group>
  );
}
