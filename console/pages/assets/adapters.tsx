import {
  Accordion,
  Code,
  Group,
  PasswordInput,
  SegmentedControl,
  Select,
  Stack,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import { usableModels } from "../../domain/models.ts";
import { text as all } from "../../text/assets.ts";
import { Act } from "../../ui/act.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

type Adapter = Responses["GET /v1/lora/{lora_name}"];

const text = all.adapters;
const listPath = "/v1/user/loras";
const pathOf = (name: string): string => `/v1/lora/${encodeURIComponent(name)}`;

export function Adapters(): ReactNode {
  const adapters = useGet<readonly Adapter[]>(listPath, { everyMs: 5000 });
  const add = (
    <Dialog label={text.add} variant="filled" size="sm">
      {(close) => <AddAdapter onAdded={close} />}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={add}>
      <Loaded query={adapters}>
        {(rows) => (
          <DataTable name="adapters" rows={rows} columns={columns} keyOf={(one) => one.lora_name} empty={text.empty} />
        )}
      </Loaded>
    </Page>
  );
}

const sourceOf = ({ source }: Adapter): string => source.repo ?? source.url ?? source.civit_url ?? "";

const columns: readonly Column<Adapter>[] = [
  {
    name: text.name,
    value: (one) => one.lora_name,
    show: (one) => (
      <>
        <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
          {one.lora_name}
        </Text>
        {one.description && (
          <Text size="xs" c="dimmed">
            {one.description}
          </Text>
        )}
      </>
    ),
  },
  { name: text.base, value: (one) => one.base_model },
  {
    name: text.status,
    value: (one) => one.status,
    show: (one) => (
      <>
        <Status of={one.status} />
        <Text size="xs" c="dimmed">
          {text.loaded(one.instances.running)}
        </Text>
      </>
    ),
  },
  { name: text.reason, value: (one) => one.fail_reason },
  {
    name: text.source,
    value: sourceOf,
    show: (one) => (
      <>
        {sourceOf(one)}
        {one.commit && (
          <div>
            <Code title={one.commit}>{one.commit.slice(0, 12)}</Code>
          </div>
        )}
      </>
    ),
  },
  { name: text.updated, value: (one) => one.updated_at, show: (one) => <Ago at={one.updated_at} /> },
  actionsColumn((one) => <RowActions one={one} />),
];

function RowActions({ one: { lora_name: name, status, description } }: { one: Adapter }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const change = async (method: "PATCH" | "DELETE", body?: object) => {
    await api.call(method, pathOf(name), body);
    await refresh(listPath, "/v1/lora", "/deploy/list");
  };
  return (
    <Group gap="xs" className="row-actions">
      {status !== "failed" && (
        <LinkButton to={`/playground?model=${encodeURIComponent(name)}`} size="xs" variant="default">
          {text.tryIt}
        </LinkButton>
      )}
      <Dialog label={text.describe} title={text.describeTitle(name)}>
        {(close) => (
          <Form
            act={text.save}
            done={text.saved}
            onSend={async ({ description: words = "" }) => {
              await change("PATCH", { description: words });
              close();
            }}
          >
            <Textarea
              label={text.describe}
              name="description"
              maxLength={2000}
              autosize
              minRows={3}
              defaultValue={description}
              data-autofocus
            />
          </Form>
        )}
      </Dialog>
      <Act
        label={text.delete}
        color="red"
        variant="light"
        command={`stoker lora delete ${name}`}
        done={text.deleted}
        confirm={{ title: text.deleteTitle(name), body: text.deleteBody }}
        onAct={() => change("DELETE")}
      />
    </Group>
  );
}

type Kind = keyof typeof text.form.kinds;

function AddAdapter({ onAdded }: { onAdded: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const owner = useVisitor().me.display_name;
  const [kind, setKind] = useState<Kind>("huggingface");
  const bases = useQuery({ queryKey: ["usable models"], queryFn: () => usableModels(api) });
  const words = text.form;
  const add = async (fields: Fields) => {
    await api.call("POST", "/v1/lora/create", bodyOf(kind, fields));
    await refresh(listPath, "/deploy/list");
    onAdded();
  };
  return (
    <Loaded query={bases}>
      {(models) =>
        models.length === 0 ? (
          <Empty action={<LinkButton to="/deployments/new">{text.deployBase}</LinkButton>}>{text.noBase}</Empty>
        ) : (
          <Form act={words.submit} done={words.done} onSend={add}>
            <TextInput
              label={words.name}
              description={words.nameHint(owner)}
              name="name"
              defaultValue={`${owner}/`}
              maxLength={256}
              required
              data-autofocus
            />
            <Select
              label={text.base}
              name="base"
              data={models.map((model) => model.model_name)}
              defaultValue={models[0]?.model_name ?? null}
              searchable
              allowDeselect={false}
            />
            <div>
              <Text size="sm" fw={500} mb={4} id="adapter-source">
                {words.kind}
              </Text>
              <SegmentedControl
                aria-labelledby="adapter-source"
                data={Object.entries(words.kinds).map(([value, label]) => ({ value: value as Kind, label }))}
                value={kind}
                onChange={setKind}
              />
            </div>
            {kind === "huggingface" ? (
              <TextInput label={words.repo} description={words.repoHint} name="repo" maxLength={256} required />
            ) : (
              <TextInput
                label={words.url}
                description={words.urlHint}
                name="url"
                type="url"
                maxLength={4096}
                required
              />
            )}
            <Accordion variant="contained">
              <Accordion.Item value="more">
                <Accordion.Control>{words.more}</Accordion.Control>
                <Accordion.Panel>
                  <Stack gap="sm">
                    {kind === "huggingface" && (
                      <>
                        <TextInput label={words.revision} name="revision" maxLength={256} />
                        <TextInput label={words.file} description={words.fileHint} name="file" maxLength={256} />
                      </>
                    )}
                    <PasswordInput
                      label={words.token}
                      description={words.tokenHint}
                      name="token"
                      autoComplete="off"
                      maxLength={256}
                    />
                    <Textarea label={words.description} name="description" maxLength={2000} />
                  </Stack>
                </Accordion.Panel>
              </Accordion.Item>
            </Accordion>
            <Command value="stoker lora create you/adapter --repo REPO --base MODEL" />
          </Form>
        )
      }
    </Loaded>
  );
}

function bodyOf(kind: Kind, fields: Fields): object {
  const { name, base, repo, url, description = "" } = fields;
  const place = kind === "huggingface" ? { repo } : kind === "url" ? { url } : { civit_url: url };
  const given = ["revision", "file", "token"].flatMap((field) => (fields[field] ? [[field, fields[field]]] : []));
  return {
    lora_name: name,
    base_model: base,
    description,
    source: { type: kind, ...place, ...Object.fromEntries(given) },
  };
}
