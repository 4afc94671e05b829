"""What mkdocs is told beside mkdocs.yml: two small rules about files."""

import os
import posixpath
import re

# A Markdown link with a relative target: the text before, the target, the rest.
LINK = re.compile(r"(\]\()([\w.][\w./-]*)((?:#[^)\s]*)?\))")


def on_files(files, config):
    """Leave the tools that build this site out of it."""
    for file in list(files):
        if file.src_path.startswith("site/"):
            files.remove(file)
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links to what is no file of the site, such as folders, to the repository."""
    folder = posixpath.dirname(page.file.src_path)

    def rewrite(link):
        target = posixpath.normpath(posixpath.join("docs", folder, link.group(2)))
        here = os.path.join(os.path.dirname(config["docs_dir"]), target)
        if target.startswith("docs/") and not os.path.isdir(here):
            return link.group(0)
        kind = "tree" if os.path.isdir(here) else "blob"
        return f"{link.group(1)}{config['extra']['repository']}/{kind}/main/{target}{link.group(3)}"

    return LINK.sub(rewrite, markdown)
