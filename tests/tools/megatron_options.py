#!/usr/bin/env python3
"""megatron_options.py CHECKOUT [--new] - the options of a checkout of Megatron-LM

Prints name, source, type, default and number of words (0, 1, ? or *) of each option of
megatron/training and of the configuration classes that its ArgumentGroupFactory turns into options.
With --new it prints those that mtrain knows neither as its own nor as another program's, and those
of other programs that take another number of words there, and ends with status 1 if there are any.
For development alone: nothing that is built or run needs it.
"""
import ast
import pathlib
import re
import sys


def text(node):
    return ast.unparse(node) if node is not None else ""


def classes(root):
    """Every class of the checkout that has annotated fields, by name."""
    found = {}
    for path in sorted(root.glob("megatron/**/*.py")):
        try:
            tree = ast.parse(path.read_text())
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, (path.relative_to(root), node))
    return found


def keyword(call, name):
    for k in call.keywords:
        if k.arg == name:
            return k.value
    return None


def words_of(call):
    """The words that an add_argument takes."""
    action, many = text(keyword(call, "action")), text(keyword(call, "nargs")).strip("'\"")
    if action and "'store'" not in action:
        return "0"
    return {"": "1", "?": "?"}.get(many, "*")


def words_of_field(kind):
    """The same of a field, by its type."""
    if re.search(r"\b[Ll]ist\[", kind):
        return "*"
    inner = re.sub(r"Optional\[(.*)\]", r"\1", kind)
    return "0" if inner.split("|")[0].strip() == "bool" else "1"


def fields(name, known):
    """(field, type, default, names) of a class, those of its bases first; a later one counts."""
    out = {}
    if name not in known:
        return out
    node = known[name][1]
    for base in node.bases:
        out.update(fields(text(base).split(".")[-1], known))
    for item in node.body:
        if not (isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)):
            continue
        value, names = item.value, None
        if isinstance(value, ast.Call) and text(value.func).endswith("field"):
            init = keyword(value, "init")
            if init is not None and text(init) == "False":
                continue
            found = re.search(r"arg_names'?: (\[[^\]]*\])", text(value))
            names = ast.literal_eval(found.group(1)) if found else None
            value = keyword(value, "default") or keyword(value, "default_factory")
        out[item.target.id] = (text(item.annotation), text(value), names)
    return out


def generated(call, known):
    cls = text(call.args[0])
    exclude = keyword(call, "exclude")
    left = set(ast.literal_eval(exclude)) if isinstance(exclude, ast.List) else set()
    if isinstance(exclude, ast.Name):
        left = set(lists.get(exclude.id, ()))
    for field, (kind, default, names) in fields(cls, known).items():
        if field in left or "ClassVar" in kind:
            continue
        option = field.replace("_", "-")
        if names is None and kind == "bool" and default == "True":
            names = ["--no-" + option, "--disable-" + option]
        for name in names or ["--" + option]:
            yield name, cls, kind, default, words_of_field(kind)


def arguments(root):
    known = classes(root)
    trees = [ast.parse(path.read_text()) for path in sorted(root.glob("megatron/training/*.py"))]
    for node in (n for tree in trees for n in ast.walk(tree)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
            for target in node.targets:
                try:
                    lists[text(target)] = ast.literal_eval(node.value)
                except ValueError:
                    pass
    for node in (n for tree in trees for n in ast.walk(tree)):
        if not isinstance(node, ast.Call):
            continue
        if text(node.func).endswith("ArgumentGroupFactory") and node.args:
            yield from generated(node, known)
        elif text(node.func).endswith("add_argument"):
            for arg in node.args:
                if isinstance(arg, ast.Constant) and str(arg.value).startswith("--"):
                    yield (arg.value, "add_argument", text(keyword(node, "type")),
                           text(keyword(node, "default")), words_of(node))


def known_here():
    """Names of the option lists of mtrain's manual and of the table of other programs' options."""
    top = pathlib.Path(__file__).resolve().parents[2]
    rows = re.findall(r'DO\(\w+, "([^"]+)"', (top / "train/config/foreign_list.h").read_text())
    own = re.findall(r"^\.It .*?Fl Fl (\S+)", (top / "man/mtrain.1").read_text(), re.M)
    return {"--" + name.replace("_", "-") for name in rows + own}


def rows_here():
    """The number of words of each row of the table of other programs' options."""
    top = pathlib.Path(__file__).resolve().parents[2]
    listed = (top / "train/config/foreign_list.h").read_text()
    signs = {"OPT_MAYBE": "?", "OPT_MANY": "*"}
    return {"--" + name: signs.get(words, words)
            for name, words in re.findall(r'DO\(\w+, "([^"]+)", (\w+),', listed)}


lists = {}


def main():
    found = {}
    for name, *rest in arguments(pathlib.Path(sys.argv[1])):
        found.setdefault(name.replace("_", "-"), rest)
    new = "--new" in sys.argv
    skip = known_here() if new else set()
    rows = rows_here() if new else {}
    # An option that takes a word or none elsewhere may do either here.
    other = {name for name in found if rows.get(name, "?") not in ("?", found[name][-1])}
    for name in sorted(set(found) - skip | other):
        print(name, *found[name], sep="\t")
    print(len(found), "options", file=sys.stderr)
    return new and bool(set(found) - skip | other)


sys.exit(main())
