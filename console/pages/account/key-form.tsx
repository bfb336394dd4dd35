// Creates or changes a key: what it may do, its lifetime and its monthly budget, in one form.
import {
  Accordion,
  Button,
  Checkbox,
  Group,
  List,
  NativeSelect,
  NumberInput,
  Paper,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { type ReactNode, useId, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import {
  commandOf,
  formOf,
  type KeyForm,
  type KeyRow,
  keysPath,
  limitsPath,
  newKey,
  previewOf,
  type Role,
  rulesOf,
} from "../../domain/key-rules.ts";
import { text } from "../../text/keys.ts";
import { listOf } from "../../ui/choice.tsx";
import { Code, Command } from "../../ui/code.tsx";
import { Form } from "../../ui/form.tsx";
import { LinkButton } from "../../ui/link.tsx";
import { useNow } from "../../ui/time.tsx";
import { ModelNames } from "./model-names.tsx";
import { projectsPath } from "./projects.tsx";

const words = text.form;

export function CreateKey({ onDone }: { onDone: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { setNewKey } = useVisitor();
  const [form, setForm] = useState(newKey);
  const [made, setMade] = useState<string | undefined>(undefined);
  const create = async () => {
    const project = form.project === "" ? {} : { project_id: form.project };
    const body = { name: form.name.trim(), ...project, ...rulesOf(form, Date.now()) };
    const key = await api.call<Responses["POST /v1/api-tokens"]>("POST", keysPath, body);
    setNewKey(key.token);
    setMade(key.token);
    await refresh(keysPath, limitsPath, projectsPath);
  };
  if (made !== undefined) return <NewSecret secret={made} onDone={onDone} />;
  return (
    <Form act={text.create} onSend={create}>
      <Fields form={form} onChange={setForm} />
      <Command value={commandOf(form)} />
    </Form>
  );
}

export function ChangeKey({ of: key, onDone }: { of: KeyRow; onDone: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [form, setForm] = useState(() => formOf(key));
  const save = async () => {
    await api.call("PATCH", `${keysPath}/id/${encodeURIComponent(key.token_id)}`, rulesOf(form, Date.now()));
    await refresh(keysPath, limitsPath);
    onDone();
  };
  return (
    <Form act={text.save} done={text.saved} onSend={save}>
      <Fields form={form} onChange={setForm} of={key} />
    </Form>
  );
}

function NewSecret({ secret, onDone }: { secret: string; onDone: () => void }): ReactNode {
  return (
    <Stack gap="md">
      <Text size="sm">{text.made.about}</Text>
      <Code value={secret} label={text.made.title} />
      <Group gap="sm">
        <Button onClick={onDone}>{text.made.done}</Button>
        <LinkButton to="/first-call" variant="default">
          {text.made.firstCall}
        </LinkButton>
      </Group>
    </Stack>
  );
}

interface FieldsProps {
  readonly form: KeyForm;
  readonly onChange: (form: KeyForm) => void;
  /** Undefined: a new key. */
  readonly of?: KeyRow;
}

/** Nothing for an account without projects. */
function ProjectChoice({ value, onChange }: { value: string; onChange: (id: string) => void }): ReactNode {
  const { data } = useGet<Responses["GET /v1/projects"]>(projectsPath);
  if (!data || data.projects.length === 0) return null;
  return (
    <NativeSelect
      label={words.project}
      description={words.projectHint}
      data={[
        { value: "", label: words.noProject },
        ...data.projects.map(({ id, name }) => ({ value: id, label: name })),
      ]}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

const numberOf = (value: string | number): number | "" => (value === "" ? "" : Number(value));

function Fields({ form, onChange, of: key }: FieldsProps): ReactNode {
  const roleLabel = useId();
  const set = (change: Partial<KeyForm>) => onChange({ ...form, ...change });
  const lifetimes = [...(key ? ([["kept", words.kept]] as const) : []), ...words.lifetimes];
  return (
    <>
      {!key && (
        <TextInput
          label={words.name}
          description={words.nameHint}
          value={form.name}
          maxLength={128}
          required
          data-autofocus
          onChange={(event) => set({ name: event.currentTarget.value })}
        />
      )}
      {!key && <ProjectChoice value={form.project} onChange={(project) => set({ project })} />}
      <div>
        <Text size="sm" fw={600} mb={4} id={roleLabel}>
          {words.role}
        </Text>
        <SegmentedControl
          fullWidth
          aria-labelledby={roleLabel}
          data={(["inference", "read", "admin"] as const).map((value) => ({ value, label: text.roles[value] }))}
          value={form.role}
          onChange={(role) => set({ role: role as Role })}
        />
      </div>
      <ModelNames
        label={words.models}
        description={words.modelsHint}
        any={words.anyModel}
        value={form.models}
        disabled={form.role === "read"}
        onChange={(models) => set({ models })}
      />
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberInput
          label={words.budget}
          description={words.budgetHint}
          placeholder={words.noBudget}
          value={form.budget}
          min={0}
          max={1_000_000_000}
          decimalScale={6}
          onChange={(value) => set({ budget: numberOf(value) })}
        />
        <NativeSelect
          label={words.lifetime}
          data={listOf(lifetimes)}
          value={form.lifetime}
          onChange={(event) => set({ lifetime: event.currentTarget.value })}
        />
      </SimpleGrid>
      <Accordion variant="contained">
        <Accordion.Item value="more">
          <Accordion.Control>{words.more}</Accordion.Control>
          <Accordion.Panel>
            <Stack gap="sm">
              <Textarea
                label={words.addresses}
                description={words.addressesHint}
                placeholder={words.anywhere}
                value={form.addresses}
                autosize
                spellCheck={false}
                onChange={(event) => set({ addresses: event.currentTarget.value })}
              />
              <SimpleGrid cols={{ base: 1, xs: 2 }}>
                <NumberInput
                  label={words.requests}
                  placeholder={words.noRate}
                  value={form.requests}
                  min={1}
                  max={1_000_000}
                  allowDecimal={false}
                  onChange={(value) => set({ requests: numberOf(value) })}
                />
                <NumberInput
                  label={words.tokens}
                  placeholder={words.noRate}
                  value={form.tokens}
                  min={1}
                  max={1_000_000_000_000}
                  allowDecimal={false}
                  onChange={(value) => set({ tokens: numberOf(value) })}
                />
              </SimpleGrid>
              <Checkbox
                label={words.passesUsers}
                description={words.passesUsersHint}
                checked={form.passesUsers}
                onChange={(event) => set({ passesUsers: event.currentTarget.checked })}
              />
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
      <Preview form={form} expiresAt={key?.expires_at ?? null} />
    </>
  );
}

function Preview({ form, expiresAt }: { form: KeyForm; expiresAt: number | null }): ReactNode {
  const nowMs = useNow();
  return (
    <Paper withBorder p="sm" component="section" aria-label={text.preview.title}>
      <Text size="sm" fw={600} mb={4}>
        {text.preview.title}
      </Text>
      <List size="sm" spacing={2}>
        {previewOf(form, nowMs, expiresAt).map((line) => (
          <List.Item key={line}>{line}</List.Item>
        ))}
      </List>
    </Paper>
  );
}
