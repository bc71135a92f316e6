#!/usr/bin/env python3
"""chat_table.py - the table of mtok --chat-format that a chat template amounts to

usage: chat_table.py [-o FILE] [-n CONVERSATIONS] [--bos TEXT] [--eos TEXT] TEMPLATE

TEMPLATE is a Jinja file, or a directory with one (chat_template.jinja, or in
tokenizer_config.json). A few conversations of contents that occur nowhere else show what the
template puts before and after each role. The table is then compared with the template in random
conversations, with and without a system message, with blanks at both ends of contents; a template
that does not agree in all of them has no table, and status 1 says so with the first conversation
that differs. Where the template writes its own system message when there is none, the table has no
role for one, and mtok refuses conversations with it. Needs jinja2.
"""
import argparse
import datetime
import json
import os
import random
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROLES = ("system", "user", "assistant")
MARK = {"system": "Qs1Z", "user": "Qu2Z", "assistant": "Qa3Z"}


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def read_template(path):
    """The template's text, and the strings of its special tokens."""
    tokens = {}
    if os.path.isdir(path):
        config = os.path.join(path, "tokenizer_config.json")
        settings = json.load(open(config)) if os.path.exists(config) else {}
        for name in ("bos_token", "eos_token"):
            value = settings.get(name)
            tokens[name] = value["content"] if isinstance(value, dict) else value or ""
        jinja = os.path.join(path, "chat_template.jinja")
        text = open(jinja).read() if os.path.exists(jinja) else settings.get("chat_template")
        if not isinstance(text, str):
            sys.exit("chat_table.py: %s: no chat template" % path)
        return text, tokens
    return open(path).read(), tokens


def renderer(text, tokens):
    """A function from messages to text, in the environment that transformers gives templates."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, **k: json.dumps(x, ensure_ascii=False)
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = datetime.datetime.now().strftime
    text = text.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    text = text.replace("{%- generation -%}", "{#- -#}").replace("{%- endgeneration -%}", "{#- -#}")
    text = text.replace("{%- generation %}", "{#- #}").replace("{%- endgeneration %}", "{#- #}")
    compiled = env.from_string(text)
    return lambda messages: compiled.render(
        messages=messages, add_generation_prompt=False, **tokens)


def pieces(render, roles):
    """What stands before, between and after the contents of these roles; None: not as they are."""
    content = ["%s%d" % (MARK[r], i) for i, r in enumerate(roles)]
    try:
        text = render([{"role": r, "content": c} for r, c in zip(roles, content)])
    except jinja2.exceptions.TemplateError:
        return None
    out, at = [], 0
    for c in content:
        if text.count(c) != 1 or text.index(c) < at:
            return None
        out.append(text[at:text.index(c)])
        at = text.index(c) + len(c)
    return out + [text[at:]]


def without_end(text, end):
    return text[:len(text) - len(end)] if text.endswith(end) else None


def without_start(text, start):
    return text[len(start):] if text.startswith(start) else None


def derive(render):
    """Tables that explain four conversations: one for each text that may stand at the end."""
    two = pieces(render, ("user", "assistant"))
    four = pieces(render, ("user", "assistant", "user", "assistant"))
    three = pieces(render, ("user", "assistant", "user"))
    system = pieces(render, ("system", "user", "assistant"))
    if not two or not four:
        return
    after_user, after_bot = (three or [None] * 4)[3], two[2]
    for n in range(len(after_bot) + 1):
        end = after_bot[len(after_bot) - n:]
        a = without_end(after_bot, end)
        user = without_start(four[2], a)
        if user is None:
            continue
        u = without_end(after_user, end) if after_user is not None else None
        for u in ([u] if u is not None else [two[1][:k] for k in range(len(two[1]) + 1)]):
            bot = without_start(two[1], u)
            start = without_end(two[0], user)
            if bot is None or start is None:
                continue
            roles = {"user": (user, u), "assistant": (bot, a)}
            if system:
                before, after = without_start(system[0], start), without_end(system[1], user)
                if before is not None and after is not None:
                    yield start, end, {"system": (before, after), **roles}
            yield start, end, roles


def apply(table, messages):
    out = table["start"]
    for m in messages:
        role = table["roles"][m["role"]]
        content = m["content"].strip() if table["strip"] else m["content"]
        out += role["before"] + content + role["after"]
    return out + table["end"]


def conversation(draw, system):
    """Messages as people write them: turns by turns, blanks and line feeds at the ends of some."""
    words = ["a", "the", "日本", "x=1", "\n", "  ", "Ünï", "code:", "{}", "1.", "end.", "\t"]
    text = lambda: draw.choice(["", " ", "\n", ""]) + " ".join(
        draw.choice(words) for _ in range(draw.randint(1, 9))) + draw.choice(["", " ", "\n", ""])
    turns = []
    if system and draw.random() < .5:
        turns.append({"role": "system", "content": text()})
    for _ in range(draw.randint(1, 4)):
        turns += [{"role": r, "content": text()} for r in ("user", "assistant")]
    return turns


def differs(table, render, count):
    """The first random conversation where the table is not the template; None: there is none."""
    draw = random.Random(1)
    for _ in range(count):
        messages = conversation(draw, "system" in table["roles"])
        try:
            want = render(messages)
        except jinja2.exceptions.TemplateError as error:
            want = str(error)
        if apply(table, messages) != want:
            return messages, want, apply(table, messages)
    return None


def find_table(render, count):
    """The table, or the first difference of the last one tried."""
    worst = None
    for start, end, roles in derive(render):
        for strip in (False, True):
            table = {"start": start, "end": end, "strip": strip, "roles": {
                r: {"before": b, "after": a, "train": r == "assistant"}
                for r, (b, a) in roles.items()}}
            worst = differs(table, render, count)
            if worst is None:
                return table, None
    return None, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("template")
    parser.add_argument("-o", "--output")
    parser.add_argument("-n", "--conversations", type=int, default=300)
    parser.add_argument("--bos")
    parser.add_argument("--eos")
    o = parser.parse_args()
    text, tokens = read_template(o.template)
    tokens.setdefault("bos_token", "")
    tokens.setdefault("eos_token", "")
    if o.bos is not None:
        tokens["bos_token"] = o.bos
    if o.eos is not None:
        tokens["eos_token"] = o.eos
    table, difference = find_table(renderer(text, tokens), o.conversations)
    if table is None:
        why = "it does not show contents as they are, one after the other"
        if difference:
            why = "of %s it makes %r, a table %r" % (
                json.dumps(difference[0], ensure_ascii=False), difference[1], difference[2])
        print("chat_table.py: %s: no table: %s; --mask-key takes its ids" % (o.template, why),
              file=sys.stderr)
        return 1
    line = json.dumps(table, ensure_ascii=False, indent=1) + "\n"
    if o.output:
        open(o.output, "w").write(line)
    else:
        sys.stdout.write(line)
    print("chat_table.py: %s: equal in %d conversations%s" % (
        o.template, o.conversations, (", with strip" if table["strip"] else "") +
        ("" if "system" in table["roles"] else ", without a system message")), file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, jinja2.exceptions.TemplateSyntaxError) as wrong:
        sys.exit("chat_table.py: %s" % wrong)
