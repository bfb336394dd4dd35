import { Stack, Text, Textarea } from "@mantine/core";
import type { ReactNode } from "react";
import { text } from "../text/operator.ts";
import { Command } from "./code.tsx";
import { Dialog, type DialogProps } from "./dialog.tsx";
import { type Fields, Form } from "./form.tsx";

interface NoteActProps extends Omit<DialogProps, "children"> {
  /** What happens, and to whom. */
  readonly body?: ReactNode;
  /** The same on the command line. */
  readonly command?: string;
  /** Message after success. */
  readonly done?: string;
  /** Who reads the note; by default the audit log has it. */
  readonly noteLabel?: string;
  readonly noteHint?: string;
  /** Further fields above the note. */
  readonly fields?: ReactNode;
  readonly onAct: (note: string, fields: Fields) => Promise<unknown>;
}

/** Button of an act that needs a reason: opens a dialog that says what happens and asks for it. */
export function NoteAct(props: NoteActProps): ReactNode {
  const { body, command, done, noteLabel = text.note, noteHint = text.noteHint, fields, onAct, ...dialog } = props;
  return (
    <Dialog {...dialog}>
      {(close) => (
        <Form
          act={dialog.label}
          {...(done ? { done } : {})}
          {...(dialog.color ? { color: dialog.color } : {})}
          onSend={async (sent) => {
            await onAct(sent["note"] ?? "", sent);
            close();
          }}
        >
          <Stack gap="sm">
            {body && (
              <Text size="sm" component="div">
                {body}
              </Text>
            )}
            {fields}
            <Textarea
              label={noteLabel}
              description={noteHint}
              name="note"
              maxLength={1000}
              autosize
              minRows={2}
              required
              data-autofocus
            />
            {command && <Command value={command} />}
          </Stack>
        </Form>
      )}
    </Dialog>
  );
}
