// Arguments of the engine. A changed deployment is rolled out; the server rolls a failed update back by itself.
import { Code, Group, NumberInput, Select, SimpleGrid, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { splitArgs } from "../../domain/new-deployment.ts";
import { text } from "../../text/deployments.ts";
import { Act } from "../../ui/act.tsx";
import { listOf } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { LinkButton } from "../../ui/link.tsx";
import { Section } from "../../ui/page.tsx";

const words = text.updateForm;

interface Run {
  readonly extra_args: readonly string[];
  readonly standard_args: Readonly<Record<string, unknown>>;
}

export function UpdateForm({ one }: { one: Deployment }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [before, setBefore] = useState<Run | undefined>(undefined);
  const now: Run = { extra_args: one.extra_args, standard_args: one.standard_args };
  const put = async (run: Run) => {
    await api.call("PUT", `/deploy/${encodeURIComponent(one.deploy_id)}`, run);
    setBefore(now);
    await refresh("/deploy");
  };
  const send = (fields: Fields) => {
    const next = runOf(fields, one);
    if (JSON.stringify(next) === JSON.stringify(now)) throw new Error(words.nothing);
    return put(next);
  };
  const of = (name: string) => {
    const value = one.standard_args[name];
    return value === undefined || value === null ? "" : String(value);
  };
  const args = one.extra_args.join(" ");
  return (
    <>
      <Section title={words.title} about={words.about}>
        {/* Again from the server's values after each change. */}
        <Form key={JSON.stringify(now)} act={words.submit} done={words.saved} onSend={async (fields) => send(fields)}>
          <TextInput
            label={words.args}
            description={words.argsHint}
            name="args"
            defaultValue={args}
            placeholder="--max-model-len 8192"
            spellCheck={false}
            autoComplete="off"
          />
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            <NumberInput
              label={words.context}
              name="max_context_size"
              min={128}
              defaultValue={of("max_context_size")}
            />
            <NumberInput
              label={words.concurrency}
              description={words.concurrencyHint}
              name="max_concurrent_requests"
              min={1}
              max={1024}
              placeholder={one.config ? `${one.config.max_batch_size}` : ""}
              defaultValue={of("max_concurrent_requests")}
            />
            <NumberInput
              label={words.memory}
              name="gpu_memory_fraction"
              min={0.5}
              max={0.97}
              step={0.01}
              defaultValue={of("gpu_memory_fraction")}
            />
            <NumberInput
              label={words.prefill}
              name="max_prefill_tokens"
              min={512}
              defaultValue={of("max_prefill_tokens")}
            />
            <NumberInput
              label={words.images}
              name="max_images_per_prompt"
              min={0}
              defaultValue={of("max_images_per_prompt")}
            />
            <TextInput
              label={words.quantisation}
              name="quantization"
              maxLength={64}
              defaultValue={of("quantization")}
            />
            <Select
              label={words.cache}
              name="kv_cache_dtype"
              data={listOf(words.cacheTypes)}
              allowDeselect={false}
              defaultValue={of("kv_cache_dtype")}
            />
            <Select
              label={words.prefix}
              name="enable_prefix_caching"
              data={listOf(words.prefixValues)}
              allowDeselect={false}
              defaultValue={of("enable_prefix_caching")}
            />
          </SimpleGrid>
          <Command value={`stoker deploy update ${one.deploy_id} --arg=${args || "--max-model-len=8192"}`} />
        </Form>
        {before && JSON.stringify(before) !== JSON.stringify(now) && (
          <Group mt="md" gap="sm">
            <Text size="sm">{words.previous}:</Text>
            <Code>{describe(before)}</Code>
            <Act label={words.restore} done={words.restored} onAct={() => put(before)} />
          </Group>
        )}
      </Section>
      <Section title={words.other} about={words.otherAbout}>
        <div>
          <LinkButton to={`/deployments/new?${copyQuery(one)}`} variant="default" size="xs">
            {words.copy}
          </LinkButton>
        </div>
      </Section>
    </>
  );
}

const numbers = [
  "max_context_size",
  "max_concurrent_requests",
  "max_images_per_prompt",
  "gpu_memory_fraction",
  "max_prefill_tokens",
];

function runOf(fields: Fields, one: Deployment): Run {
  // Settings that this form does not show stay.
  const standard: Record<string, unknown> = { ...one.standard_args };
  const set = (name: string, value: unknown) => {
    if (value === undefined) delete standard[name];
    else standard[name] = value;
  };
  const typed = (name: string): string => (fields[name] ?? "").trim();
  for (const name of numbers) set(name, typed(name) === "" ? undefined : Number(typed(name)));
  for (const name of ["quantization", "kv_cache_dtype"]) set(name, typed(name) || undefined);
  const prefix = typed("enable_prefix_caching");
  set("enable_prefix_caching", prefix === "" ? undefined : prefix === "true");
  return { extra_args: splitArgs(typed("args")), standard_args: standard };
}

function describe({ extra_args: args, standard_args: standard }: Run): string {
  const settings = Object.entries(standard).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return [...args, ...settings].join(" ") || text.detail.none;
}

const copyQuery = ({ config, task, extra_args: args }: Deployment): URLSearchParams =>
  new URLSearchParams({
    source: config?.weights.repo ?? "",
    revision: config?.weights.revision ?? "",
    task,
    gpu: config?.gpu ?? "",
    count: `${config?.num_gpus ?? 1}`,
    ...(args.length > 0 ? { args: args.join(" ") } : {}),
  });
