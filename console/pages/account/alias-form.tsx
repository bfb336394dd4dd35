import {
  ActionIcon,
  Autocomplete,
  Button,
  Checkbox,
  Group,
  List,
  NativeSelect,
  NumberInput,
  Paper,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import {
  type AliasForm,
  type AliasScope,
  aliasBody,
  aliasCommand,
  aliasPath,
  aliasPreview,
  hasShare,
  isAliasName,
  type Target,
} from "../../domain/aliases.ts";
import { text } from "../../text/aliases.ts";
import { listOf } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { Form } from "../../ui/form.tsx";
import { useModels } from "../models/use-models.ts";
import { ModelNames } from "./model-names.tsx";

const words = text.form;
const maxTargets = 16;

interface AliasEditorProps {
  readonly of: AliasForm;
  /** Its name and scope cannot change. */
  readonly isKnown?: boolean;
  readonly onDone: () => void;
}

export function AliasEditor({ of, isKnown = false, onDone }: AliasEditorProps): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { me } = useVisitor();
  const [form, setForm] = useState<AliasForm>(of);
  const set = (change: Partial<AliasForm>) => setForm({ ...form, ...change });
  const body = aliasBody(form);
  const hasFault = form.name !== "" && !isAliasName(form.name);
  const preview = aliasPreview(form);
  const save = async () => {
    await api.call("PUT", aliasPath(form), body);
    await refresh("/v1/model-aliases", "/models");
    onDone();
  };
  return (
    <Form
      act={isKnown ? text.save : text.create}
      done={text.saved}
      disabled={hasFault || !hasShare(body.targets)}
      onSend={save}
    >
      {!isKnown && (
        <TextInput
          label={words.name}
          description={words.nameHint}
          value={form.name}
          error={hasFault && words.nameFault}
          maxLength={256}
          required
          data-autofocus
          onChange={(event) => set({ name: event.currentTarget.value })}
        />
      )}
      {!isKnown && me.is_admin && (
        <NativeSelect
          label={words.scope}
          data={listOf(text.scopes)}
          value={form.scope}
          onChange={(event) => set({ scope: event.currentTarget.value as AliasScope })}
        />
      )}
      <Targets of={form.targets} onChange={(targets) => set({ targets })} />
      <ModelNames
        label={words.fallbacks}
        description={words.fallbacksHint}
        any={words.noFallback}
        value={form.fallbacks}
        onChange={(fallbacks) => set({ fallbacks })}
      />
      <Checkbox
        label={words.sticky}
        description={words.stickyHint}
        checked={form.sticky}
        onChange={(event) => set({ sticky: event.currentTarget.checked })}
      />
      {preview.length > 0 && (
        <Paper withBorder p="sm" component="section" aria-label={text.preview.title}>
          <List size="sm" spacing={2}>
            {preview.map((line) => (
              <List.Item key={line}>{line}</List.Item>
            ))}
          </List>
        </Paper>
      )}
      <Command value={aliasCommand(form)} />
    </Form>
  );
}

function Targets({ of, onChange }: { of: readonly Target[]; onChange: (of: readonly Target[]) => void }): ReactNode {
  const models = useModels();
  const names = [...new Set((models.data ?? []).map((model) => model.model_name))];
  const change = (at: number, to: Partial<Target>) =>
    onChange(of.map((one, index) => (index === at ? { ...one, ...to } : one)));
  return (
    <Stack gap="xs">
      <div>
        <Text size="sm" fw={600}>
          {words.targets}
        </Text>
        <Text size="xs" c="dimmed">
          {words.targetsHint}
        </Text>
      </div>
      {of.map(({ model, weight }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place.
        <Group key={at} gap="xs" wrap="nowrap">
          <Autocomplete
            aria-label={words.model(at + 1)}
            data={names}
            value={model}
            maxLength={256}
            required={at === 0}
            style={{ flex: 1 }}
            onChange={(value) => change(at, { model: value })}
          />
          <NumberInput
            aria-label={words.weight(at + 1)}
            value={weight}
            min={0}
            max={1_000_000}
            allowDecimal={false}
            w={96}
            onChange={(value) => change(at, { weight: Number(value) || 0 })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            disabled={of.length === 1}
            aria-label={words.remove(at + 1)}
            onClick={() => onChange(of.filter((_, index) => index !== at))}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </Group>
      ))}
      <div>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlus size={14} />}
          disabled={of.length >= maxTargets}
          onClick={() => onChange([...of, { model: "", weight: 1 }])}
        >
          {words.add}
        </Button>
      </div>
    </Stack>
  );
}
